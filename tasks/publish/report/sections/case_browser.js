// Every case: search, filters, and the way to a case from elsewhere in the page or from an address.

const SAYS = {pass: 'passes', fail: 'fails', lost: 'not scored', none: 'no verdict'};

function caseCard(data, item, filters, open) {
  const rowOf = new Map(item.rows.map(row => [data.rows.model[row], row]));
  const places = data.models.length <= 24 ? data.models.map((_, model) => rowOf.get(model)) : item.rows.slice(0, 24);
  const dots = el(
    'span',
    {class: 'dots'},
    places.map((row, place) => {
      if (row === undefined) {
        const says = `${shown(data.models[place].label)}: no answer in this page`;
        return el('span', {class: 'dot absent', title: says, role: 'img', 'aria-label': says});
      }
      const state = data.state(row, filters.evaluator);
      const failures = data.failures(row, filters.evaluator);
      const outcome = state === 'fail' ? `fails ${plural(failures, 'check')}` : SAYS[state];
      const says = `${shown(data.models[data.rows.model[row]].label)}: ${outcome}`;
      return el(
        'span',
        {class: 'dot ' + state, title: says, role: 'img', 'aria-label': says},
        SYMBOL[state] + (failures > 1 ? failures : ''),
      );
    }),
    item.rows.length > places.length
      ? el('span', {class: 'faint small'}, `+${item.rows.length - places.length}`)
      : null,
  );
  const title = item.q || item.k;
  const head = el(
    'button',
    {type: 'button', 'aria-expanded': 'false'},
    el('span', {class: title.length > TITLE ? 'title long' : 'title'}, shown(title.slice(0, TITLE))),
    dots,
    el(
      'span',
      {class: 'meta'},
      el('span', {class: 'mono'}, shown(item.k)),
      item.o.length
        ? el('span', {class: 'badge'}, 'perturbed' + (item.o[0][1] ? `: ${shown(item.o[0][1])}` : ''))
        : null,
      item.rows.some(row => data.flippedRows.has(data.rows.id[row]))
        ? el('span', {class: 'badge medium'}, '⇄ flipped')
        : null,
      item.g.slice(0, 6).map(text => el('span', {class: 'badge'}, shown(text))),
    ),
  );
  const card = el('article', {class: 'card case', 'data-case': item.k}, head);
  const toggle = () => {
    const opens = head.getAttribute('aria-expanded') !== 'true';
    head.setAttribute('aria-expanded', String(opens));
    if (opens) card.append(caseBody(data, item, filters));
    else card.lastChild.remove();
  };
  head.addEventListener('click', toggle);
  if (open) toggle();
  return card;
}

/** Set the case browser up and return its filters, which other parts of the page set. */
function caseBrowser(data) {
  const at = id => document.getElementById(id);
  const [search, model, evaluator, status, order] = [
    'case-search',
    'case-model',
    'case-evaluator',
    'case-status',
    'case-order',
  ].map(at);
  options(
    model,
    data.models.map((item, position) => [position, item.label]),
  );
  options(
    evaluator,
    data.evaluators.map((item, position) => [position, item.name]),
  );
  const filters = {model: -1, evaluator: -1, only: null, label: ''};
  const hay = [];
  const haystack = position => {
    if (hay[position] === undefined) {
      const item = data.cases[position];
      hay[position] = [
        item.k,
        item.q || '',
        ...item.x,
        ...item.g,
        ...item.rows.map(row => (data.rows.answer[row] || '') + ' ' + (data.rows.error[row] || '')),
      ]
        .join('\n')
        .toLowerCase();
    }
    return hay[position];
  };
  const rowFits = row => {
    if (filters.model >= 0 && data.rows.model[row] !== filters.model) return false;
    if (filters.only && !filters.only.has(data.rows.id[row])) return false;
    const wanted = status.value;
    if (wanted === 'flipped') return data.flippedRows.has(data.rows.id[row]);
    if (wanted === 'fail' || wanted === 'pass') return data.state(row, filters.evaluator) === wanted;
    if (wanted === 'lost') {
      const lost = data.unscored[row];
      return Boolean(lost) && (filters.evaluator < 0 || filters.evaluator in lost);
    }
    return true;
  };
  const pages = new Pages(at('case-list'), at('case-pager'), 20, ([item, open]) => caseCard(data, item, filters, open));
  const measure = item => {
    if (order.value === 'failures')
      return -item.rows.reduce((sum, row) => sum + data.failures(row, filters.evaluator), 0);
    const metric = data.deciding[Math.max(0, filters.evaluator)]?.[0];
    if (metric === undefined) return 0;
    const values = item.rows
      .filter(row => filters.model < 0 || data.rows.model[row] === filters.model)
      .map(row => data.scores[metric][row])
      .filter(value => value !== null)
      .map(Number);
    return values.length
      ? ((data.metrics[metric].hib ? 1 : -1) * values.reduce((a, b) => a + b, 0)) / values.length
      : Infinity;
  };
  const apply = (open = null) => {
    filters.model = model.value === '' ? -1 : Number(model.value);
    filters.evaluator = evaluator.value === '' ? -1 : Number(evaluator.value);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    data.cases.forEach((item, position) => {
      if (status.value === 'perturbed' && !item.o.length) return;
      if (!item.rows.some(rowFits)) return;
      if (words.length && !words.every(word => haystack(position).includes(word))) return;
      found.push(item);
    });
    if (order.value) {
      const keys = new Map(found.map(item => [item, measure(item)]));
      found.sort((a, b) => (keys.get(a) === keys.get(b) ? 0 : keys.get(a) < keys.get(b) ? -1 : 1));
    }
    const opened = found.findIndex(item => item.k === open);
    pages.show(
      found.map(item => [item, item.k === open]),
      Math.max(0, Math.floor(opened / 20)),
    );
    at('case-count').textContent =
      found.length === data.cases.length
        ? plural(found.length, 'case')
        : `${found.length.toLocaleString('en')} of ${plural(data.cases.length, 'case')}`;
    at('case-empty').hidden = found.length > 0;
    at('case-absent').hidden = true;
    at('case-only').hidden = !filters.only;
    at('case-only-label').textContent = filters.label;
    return opened;
  };
  const go = () => at('cases').scrollIntoView({behavior: 'instant'});
  const reset = () => {
    search.value = model.value = evaluator.value = status.value = order.value = '';
    filters.only = null;
    filters.label = '';
  };
  /** Show the cases of some rows, or of a model and an evaluator. */
  filters.show = ({rows = null, label = '', model: m = '', evaluator: e = '', status: s = ''}) => {
    reset();
    filters.only = rows ? new Set(rows) : null;
    filters.label = label;
    model.value = m;
    evaluator.value = e;
    status.value = s;
    apply();
    go();
  };
  filters.openCase = key => {
    reset();
    if (apply(key) < 0) {
      at('case-absent').textContent = `The case ${shown(key)} is not in this page.`;
      at('case-absent').hidden = false;
      go();
      return;
    }
    const card = [...at('case-list').children].find(node => node.dataset.case === key);
    card.scrollIntoView({behavior: 'instant'});
    card.firstChild.focus({preventScroll: true});
  };
  let timer = 0;
  search.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(apply, 120);
  });
  for (const control of [model, evaluator, status, order]) control.addEventListener('change', () => apply());
  at('case-clear').addEventListener('click', () => {
    reset();
    apply();
  });
  at('case-only').addEventListener('click', () => {
    filters.only = null;
    filters.label = '';
    apply();
  });
  apply();
  return filters;
}

onData((data, page) => {
  const {show, openCase} = Object.assign(page, caseBrowser(data));
  const follow = (attribute, f) => {
    const links = document.querySelectorAll(`[data-${attribute}]`);
    links.forEach(link => link.addEventListener('click', () => f(link.dataset)));
  };
  follow('show-model', cell => show({model: cell.showModel, evaluator: cell.showEvaluator}));
  follow('show-lost', link => show({evaluator: link.showLost, status: 'lost'}));
  follow('open-case', link => openCase(link.openCase));
  const openNamed = () => {
    const key = namedCase(location.hash);
    if (key !== null) openCase(key);
  };
  addEventListener('hashchange', openNamed);
  openNamed();
});

/** Return the key in an address that ends in #case=KEY, null where it names none. */
function namedCase(hash) {
  if (!hash.startsWith('#case=')) return null;
  try {
    return decodeURIComponent(hash.slice(6));
  } catch (error) {
    return hash.slice(6);
  }
}
