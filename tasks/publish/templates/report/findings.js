// Problems and flips: filtered lists that lead to the cases.

const SEVERITY = {high: '▲ high', medium: '◆ medium', low: '● low'};

function problemList(data, filters) {
  const at = id => document.getElementById(id);
  const names = ['severity', 'type', 'model', 'evaluator', 'instrument'];
  const selects = names.map(name => at('problem-' + name));
  const present = key => [...new Set(data.problems.map(item => item[key]))].filter(value => value !== null);
  options(selects[0], ['high', 'medium', 'low'].filter(level => present('severity').includes(level)).map(level => [level, level]));
  options(selects[1], present('type').sort().map(type => [type, type]));
  options(selects[2], present('model').sort((a, b) => a - b).map(model => [model, data.models[model].label]));
  options(selects[3], present('evaluator').sort((a, b) => a - b).map(position => [position, data.evaluators[position].name]));
  const card = item => el('article', {class: 'card finding'},
    el('div', {class: 'tags'}, el('span', {class: 'badge ' + item.severity}, SEVERITY[item.severity] || item.severity), el('span', {class: 'badge'}, shown(item.type)),
      item.instrument ? el('span', {class: 'badge instrument', title: 'The instrument or the data is at fault, not a model.'}, '⚙ instrument') : null,
      el('span', {class: 'muted small'}, shown([item.evaluator === null ? '' : data.evaluators[item.evaluator].name, item.model === null ? '' : data.models[item.model].label].filter(Boolean).join(' · ')))),
    el('p', {class: 'text', dir: 'auto'}, shown(item.description)), item.actions ? el('p', {class: 'todo'}, shown(item.actions)) : null,
    item.n ? el('div', {}, item.rows.length ? el('button', {class: 'link', type: 'button', onclick: () => filters.show({rows: item.rows, label: item.description.slice(0, 140),
      evaluator: item.evaluator === null ? '' : String(item.evaluator)})}, `Show ${plural(item.n, 'answer')} →`) : el('span', {class: 'faint small'}, `${plural(item.n, 'answer')}, none of them in this page`)) : null);
  const pages = new Pages(at('problem-list'), at('problem-pager'), 10, card);
  const apply = () => {
    const found = data.problems.filter(item => selects.every((select, i) => select.value === '' || String(item[names[i]]) === select.value));
    pages.show(found);
    at('problem-count').textContent = found.length === data.problems.length ? '' : `${found.length} of ${plural(data.problems.length, 'problem')}`;
  };
  selects.forEach(select => select.addEventListener('change', apply));
  apply();
}

function flipList(data, filters) {
  const at = id => document.getElementById(id);
  if (!data.flips.length) return;
  const selects = ['flip-perturbation', 'flip-model', 'flip-evaluator', 'flip-direction'].map(at);
  const unique = pick => [...new Set(data.flips.map(pick))];
  options(selects[0], unique(flip => flip.how).sort().map(how => [how, how || 'unnamed']));
  options(selects[1], unique(flip => flip.model).sort((a, b) => a - b).map(model => [model, data.models[model].label]));
  options(selects[2], unique(flip => data.metrics[flip.metric].e).sort((a, b) => a - b).map(position => [position, data.evaluators[position].name]));
  const side = (label, key, row, value, flip, question) => {
    const metric = data.metrics[flip.metric];
    const passes = data.passes(flip.metric, value);
    return el('div', {class: 'answer'}, el('header', {}, el('h3', {}, label), el('span', {class: 'score ' + (passes ? 'pass' : 'fail')}, shown(metric.label), el('b', {}, figure(value, metric.share) + (passes ? ' ✓' : ' ✗')))),
      el('button', {class: 'link mono small', type: 'button', onclick: () => filters.openCase(key)}, shown(key)),
      row === undefined ? el('span', {class: 'faint'}, 'Not in this page.') : [field('Question', question), field('Answer', data.rows.answer[row] === null ? '–' : textBlock(data.rows.answer[row]))]);
  };
  const body = flip => {
    const before = data.rowOf.get(flip.rows[0]), after = data.rowOf.get(flip.rows[1]);
    const ask = row => (row === undefined ? '' : data.cases[data.rows.case[row]].q || '');
    const words = before === undefined || after === undefined ? null : changedWords(ask(before), ask(after));
    const draw = (skip, tag, whole) => {
      if (!words) return textBlock(whole);
      const block = el('div', {class: 'text', dir: 'auto'});
      for (const [kind, text] of words) {
        if (kind === skip) continue;
        const node = kind === 'same' ? block : el(tag, {});
        appendText(node, text);
        if (node !== block) block.append(node);
      }
      return block;
    };
    return el('div', {class: 'inside'}, el('div', {class: 'pair'},
      side('Original', flip.cases[0], before, flip.values[0], flip, draw('new', 'del', ask(before))),
      side('Perturbed' + (flip.how ? `: ${shown(flip.how)}` : ''), flip.cases[1], after, flip.values[1], flip, draw('gone', 'ins', ask(after)))));
  };
  const card = flip => {
    const metric = data.metrics[flip.metric];
    const worse = flip.direction === 'passed_to_failed';
    const head = el('button', {type: 'button', 'aria-expanded': 'false'},
      el('span', {class: 'title'}, `${shown(metric.label)}, ${shown(data.models[flip.model].label)}: ${figure(flip.values[0], metric.share)} → ${figure(flip.values[1], metric.share)}`),
      el('span', {class: 'badge ' + (worse ? 'fail' : 'pass')}, worse ? '✓→✗ now fails' : '✗→✓ now passes'),
      el('span', {class: 'meta'}, el('span', {class: 'mono'}, `${shown(flip.cases[0])} → ${shown(flip.cases[1])}`), flip.how ? el('span', {class: 'badge'}, shown(flip.how)) : null));
    const node = el('article', {class: 'card case'}, head);
    head.addEventListener('click', () => {
      const opens = head.getAttribute('aria-expanded') !== 'true';
      head.setAttribute('aria-expanded', String(opens));
      if (opens) node.append(body(flip)); else node.lastChild.remove();
    });
    return node;
  };
  const pages = new Pages(at('flip-list'), at('flip-pager'), 8, card);
  const value = [flip => flip.how, flip => flip.model, flip => data.metrics[flip.metric].e, flip => flip.direction];
  const apply = () => pages.show(data.flips.filter(flip => selects.every((select, i) => select.selectedIndex === 0 || String(value[i](flip)) === select.value)));
  selects.forEach(select => select.addEventListener('change', apply));
  apply();
}
