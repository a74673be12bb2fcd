// Problems: a filtered list that leads to the cases.

const MOST_LINKS = 8;
const SEVERITY = {high: '▲ high', medium: '◆ medium', low: '● low'};

function problemList(data, page) {
  const at = id => document.getElementById(id);
  const names = ['severity', 'type', 'model', 'evaluator', 'fault'];
  const selects = names.map(name => at('problem-' + name));
  const present = key => [...new Set(data.problems.map(item => item[key]))].filter(value => value !== null);
  options(
    selects[0],
    ['high', 'medium', 'low'].filter(level => present('severity').includes(level)).map(level => [level, level]),
  );
  options(
    selects[1],
    present('type')
      .sort()
      .map(type => [type, type]),
  );
  options(
    selects[2],
    present('model')
      .sort((a, b) => a - b)
      .map(model => [model, data.models[model].label]),
  );
  options(
    selects[3],
    present('evaluator')
      .sort((a, b) => a - b)
      .map(position => [position, data.evaluators[position].name]),
  );
  const showRows = item => () =>
    page.show({
      rows: item.rows,
      label: item.description.slice(0, 140),
      evaluator: item.evaluator === null ? '' : String(item.evaluator),
    });
  /** Return links to a problem's first cases, worst first, and one to all of its answers. */
  const links = item => {
    const cases = [...new Set(item.rows.map(id => data.cases[data.rows.case[data.rowOf.get(id)]].k))];
    return el(
      'div',
      {class: 'case-links'},
      cases
        .slice(0, MOST_LINKS)
        .map(key => el('button', {class: 'link mono', type: 'button', onclick: () => page.openCase(key)}, shown(key))),
      item.rows.length
        ? null
        : el('span', {class: 'faint small'}, `${plural(item.n, 'answer')}, none of them in this page`),
      item.rows.length && item.n > 1
        ? el('button', {class: 'link', type: 'button', onclick: showRows(item)}, `Show ${plural(item.n, 'answer')} →`)
        : null,
    );
  };
  const card = item =>
    el(
      'article',
      {class: 'card finding'},
      el(
        'div',
        {class: 'tags'},
        el('span', {class: 'badge ' + item.severity}, SEVERITY[item.severity] || item.severity),
        el('span', {class: 'badge'}, shown(item.type)),
        item.fault === 'model'
          ? null
          : el(
              'span',
              {class: 'badge instrument', title: `The ${item.fault} is at fault, not a model.`},
              `⚙ ${item.fault}`,
            ),
        el(
          'span',
          {class: 'muted small'},
          shown(
            [
              item.evaluator === null ? '' : data.evaluators[item.evaluator].name,
              item.model === null ? '' : data.models[item.model].label,
            ]
              .filter(Boolean)
              .join(' · '),
          ),
        ),
      ),
      el('p', {class: 'text', dir: 'auto'}, shown(item.description)),
      item.actions ? el('p', {class: 'todo'}, shown(item.actions)) : null,
      item.n ? links(item) : null,
    );
  const pages = new Pages(at('problem-list'), at('problem-pager'), 10, card);
  const apply = () => {
    const found = data.problems.filter(item =>
      selects.every((select, i) => select.value === '' || String(item[names[i]]) === select.value),
    );
    pages.show(found);
    at('problem-count').textContent =
      found.length === data.problems.length ? '' : `${found.length} of ${plural(data.problems.length, 'problem')}`;
  };
  selects.forEach(select => select.addEventListener('change', apply));
  apply();
}

onData(problemList);
