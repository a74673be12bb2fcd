// Flips: a filtered list of pairs that leads to the cases.

/** Return [kind, text] pieces of b against a, word by word; null when they are too long or too different in size. */
function changedWords(a, b) {
  const left = a.split(/(\s+)/),
    right = b.split(/(\s+)/);
  if (left.length * right.length > 400000) return null;
  const table = Array.from({length: left.length + 1}, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      table[i][j] = left[i] === right[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const pieces = [];
  const push = (kind, text) => {
    const last = pieces[pieces.length - 1];
    if (last && last[0] === kind) last[1] += text;
    else pieces.push([kind, text]);
  };
  let i = 0,
    j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      push('same', left[i++]);
      j++;
    } else if (table[i + 1][j] >= table[i][j + 1]) push('gone', left[i++]);
    else push('new', right[j++]);
  }
  while (i < left.length) push('gone', left[i++]);
  while (j < right.length) push('new', right[j++]);
  return pieces;
}

function flipList(data, page) {
  const at = id => document.getElementById(id);
  if (!data.flips.length) return;
  const selects = ['flip-perturbation', 'flip-model', 'flip-evaluator', 'flip-direction'].map(at);
  const unique = pick => [...new Set(data.flips.map(pick))];
  options(
    selects[0],
    unique(flip => flip.how)
      .sort()
      .map(how => [how, how || 'unnamed']),
  );
  options(
    selects[1],
    unique(flip => flip.model)
      .sort((a, b) => a - b)
      .map(model => [model, data.models[model].label]),
  );
  options(
    selects[2],
    unique(flip => data.metrics[flip.metric].e)
      .sort((a, b) => a - b)
      .map(position => [position, data.evaluators[position].name]),
  );
  const side = (label, key, row, value, flip, question) => {
    const metric = data.metrics[flip.metric];
    const passes = data.passes(flip.metric, value);
    return el(
      'div',
      {class: 'answer'},
      el(
        'header',
        {},
        el('h3', {}, label),
        el(
          'span',
          {class: 'score ' + (passes ? 'pass' : 'fail')},
          shown(metric.label),
          el('b', {}, figure(value, metric.share) + (passes ? ' ✓' : ' ✗')),
        ),
      ),
      el('button', {class: 'link mono small', type: 'button', onclick: () => page.openCase(key)}, shown(key)),
      row === undefined
        ? el('span', {class: 'faint'}, 'Not in this page.')
        : [
            field('Question', question),
            field('Answer', data.rows.answer[row] === null ? '–' : textBlock(data.rows.answer[row], [], FOLD, data.rows.cut[row])),
          ],
    );
  };
  const body = flip => {
    const before = data.rowOf.get(flip.rows[0]),
      after = data.rowOf.get(flip.rows[1]);
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
    return el(
      'div',
      {class: 'inside'},
      el(
        'div',
        {class: 'pair'},
        side('Original', flip.cases[0], before, flip.values[0], flip, draw('new', 'del', ask(before))),
        side(
          'Perturbed' + (flip.how ? `: ${shown(flip.how)}` : ''),
          flip.cases[1],
          after,
          flip.values[1],
          flip,
          draw('gone', 'ins', ask(after)),
        ),
      ),
    );
  };
  const card = flip => {
    const metric = data.metrics[flip.metric];
    const worse = flip.direction === 'passed_to_failed';
    const head = el(
      'button',
      {type: 'button', 'aria-expanded': 'false'},
      el(
        'span',
        {class: 'title'},
        `${shown(metric.label)}, ${shown(data.models[flip.model].label)}: ` +
          flip.values.map(value => figure(value, metric.share)).join(' → '),
      ),
      el('span', {class: 'badge ' + (worse ? 'fail' : 'pass')}, worse ? '✓→✗ now fails' : '✗→✓ now passes'),
      el(
        'span',
        {class: 'meta'},
        el('span', {class: 'mono'}, `${shown(flip.cases[0])} → ${shown(flip.cases[1])}`),
        flip.how ? el('span', {class: 'badge'}, shown(flip.how)) : null,
        flip.confirmed === null
          ? null
          : el('span', {class: 'badge'}, flip.confirmed ? 'confirmed by every trial' : 'trials disagree'),
      ),
    );
    const node = el('article', {class: 'card case'}, head);
    head.addEventListener('click', () => {
      const opens = head.getAttribute('aria-expanded') !== 'true';
      head.setAttribute('aria-expanded', String(opens));
      if (opens) node.append(body(flip));
      else node.lastChild.remove();
    });
    return node;
  };
  const pages = new Pages(at('flip-list'), at('flip-pager'), 8, card);
  const value = [flip => flip.how, flip => flip.model, flip => data.metrics[flip.metric].e, flip => flip.direction];
  const apply = () =>
    pages.show(
      data.flips.filter(flip =>
        selects.every((select, i) => select.selectedIndex === 0 || String(value[i](flip)) === select.value),
      ),
    );
  selects.forEach(select => select.addEventListener('change', apply));
  apply();
}

onData(flipList);
