// Every case: search, filters, and the case itself with its answers, scores and evidence.

const SYMBOL = {pass: '✓', fail: '✗', lost: '?', none: '·'};
const SAYS = {pass: 'passes', fail: 'fails', lost: 'not scored', none: 'no verdict'};

/** Return one evaluator's finding on one answer: why it scored so. */
function evidenceBlock(data, [evaluator, message, , extra, error]) {
  const block = el('div', {class: 'why'}, el('b', {}, shown(data.evaluators[evaluator].name)));
  if (message) {
    block.append(': ');
    appendText(block, message);
  }
  if (error) {
    block.append(el('div', {class: 'muted'}, 'Instrument: ', shown(error)));
  }
  if (extra) {
    const said = typeof extra === 'string' ? extra : extra.rationale || extra.reason;
    if (typeof said === 'string' && said) block.append(textBlock(said));
    if (typeof extra !== 'string')
      block.append(
        el('details', {}, el('summary', {}, 'Details'), el('pre', {}, shownLines(JSON.stringify(extra, null, 1)))),
      );
  }
  return block;
}

const shownLines = text => text.split('\n').map(shown).join('\n');

const trialFigure = value => (value === null ? '?' : figure(value));

/** Return the line of scores of one answer. */
function scoreLine(data, row, all) {
  const line = el('div', {class: 'scores'});
  data.metrics.forEach((metric, position) => {
    if (!all && !data.deciding[metric.e].includes(position)) return;
    const value = data.scores[position][row];
    const lost = (data.unscored[row] || {})[metric.e];
    const label = shown(metric.label);
    if (value === null && !lost) return;
    if (value === null) {
      line.append(el('span', {class: 'score lost', title: lost}, label, el('b', {}, '? ' + shown(lost))));
      return;
    }
    const passes = data.passes(position, value);
    const trials = (data.trials[row] || {})[position];
    const limit =
      metric.threshold === null
        ? 'no threshold'
        : `threshold ${metric.hib ? '≥' : '≤'} ${figure(metric.threshold)}`;
    line.append(
      el(
        'span',
        {
          class: 'score ' + (passes === null ? '' : passes ? 'pass' : 'fail'),
          title:
            `${shown(metric.name)}: ${value}, ${limit}` +
            (trials ? `, mean of trials ${trials.map(trialFigure).join(', ')}` : ''),
        },
        label,
        el(
          'b',
          {},
          (metric.primary && metric.share && passes !== null
            ? passes
              ? 'pass'
              : 'fail'
            : figure(value, metric.share)) + (passes === null ? '' : passes ? ' ✓' : ' ✗'),
        ),
        trials && trials.some(one => one !== trials[0])
          ? el('span', {class: 'muted num'}, ` trials ${trials.map(trialFigure).join(' · ')}`)
          : null,
      ),
    );
  });
  return line;
}

/** Turn spans in code points into marks in UTF-16 units that do not overlap; of several the worst value colours. */
function marksOf(text, spans, metric) {
  if (!spans.length) return [];
  let at = position => Math.min(position, text.length);
  if (/[\ud800-\udfff]/.test(text)) {
    const starts = [];
    for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) starts.push(i);
    at = position => (position < starts.length ? starts[position] : text.length);
  }
  const edges = [];
  spans.forEach((span, number) => {
    const start = at(Math.max(0, span.start)),
      end = at(Math.max(0, span.end));
    if (end > start) edges.push([start, 1, number], [end, 0, number]);
  });
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = new Set(),
    marks = [];
  let from = 0;
  for (const [position, opens, number] of edges) {
    if (position > from && open.size) {
      const inside = [...open].map(n => spans[n]);
      const results = inside.map(span => (metric === null ? null : passesSpan(span, metric)));
      const kind = results.includes(false) ? 'fail' : results.includes(true) ? 'pass' : '';
      const title = inside
        .slice(0, 5)
        .map(span =>
          [span.value === undefined || span.value === null ? '' : figure(span.value), shown(span.note || '')]
            .filter(Boolean)
            .join(' · '),
        )
        .filter(Boolean)
        .join('\n');
      marks.push([from, position, kind, title || 'evidence']);
    }
    from = position;
    if (opens) open.add(number);
    else open.delete(number);
  }
  return marks;
}

function passesSpan(span, metric) {
  if (span.value === undefined || span.value === null || metric.threshold === null) return null;
  return metric.hib ? Number(span.value) >= Number(metric.threshold) : Number(span.value) <= Number(metric.threshold);
}

/** Return one model's answer with scores, highlights, context and evidence. */
function answerCard(data, row, evaluator) {
  const {rows} = data;
  const evidence = data.evidence[row] || [];
  const pointing = evidence.filter(item => item[2].length);
  let chosen =
    pointing.find(item => item[0] === evaluator) ||
    pointing.find(item => data.state(row, item[0]) === 'fail') ||
    pointing[0] ||
    null;
  const facts = [
    rows.duration[row] === null ? '' : figure(rows.duration[row]) + ' s',
    rows.cost[row] === null ? '' : '$' + Number(rows.cost[row].toPrecision(3)),
  ]
    .filter(Boolean)
    .join(' · ');
  const said = el('div', {class: 'said'}),
    context = el('div', {});
  const draw = () => {
    const metric = chosen ? data.metrics[data.deciding[chosen[0]][0]] : null;
    const spans = (source, number) =>
      chosen ? chosen[2].filter(span => span.source === source && (span.index || 0) === number) : [];
    const answer = rows.answer[row];
    said.replaceChildren(
      rows.error[row] !== null
        ? el(
            'div',
            {},
            el('span', {class: 'badge fail'}, '✗ The model’s host returned an error'),
            textBlock(rows.error[row]),
          )
        : answer === null
          ? el('span', {class: 'faint'}, 'No answer.')
          : answer === ''
            ? el('span', {class: 'faint'}, 'The answer is empty.')
            : textBlock(answer, marksOf(answer, spans('actual_answer', 0), metric)),
    );
    const chunks = rows.context[row];
    const open = context.firstChild ? context.firstChild.open : false;
    context.replaceChildren(
      ...(chunks.length
        ? [
            el(
              'details',
              {open},
              el('summary', {}, plural(chunks.length, 'context chunk')),
              chunks.map(([text, doc], number) =>
                el(
                  'div',
                  {class: 'chunk'},
                  el('div', {class: 'faint small'}, `${number + 1}`, doc ? ' · ' + shown(doc) : ''),
                  textBlock(data.chunks[text], marksOf(data.chunks[text], spans('retrieved_context', number), metric)),
                ),
              ),
            ),
          ]
        : []),
    );
  };
  draw();
  const chips =
    pointing.length > 1
      ? el(
          'div',
          {class: 'scores', role: 'group', 'aria-label': 'Highlight'},
          pointing.map(item =>
            el(
              'button',
              {
                class: 'btn small',
                type: 'button',
                'aria-pressed': String(item === chosen),
                onclick: event => {
                  chosen = item === chosen ? null : item;
                  for (const other of event.target.parentNode.children)
                    other.setAttribute('aria-pressed', String(other === event.target && chosen !== null));
                  draw();
                },
              },
              shown(data.evaluators[item[0]].name),
            ),
          ),
        )
      : null;
  const all = el('details', {}, el('summary', {}, 'All metrics'));
  all.addEventListener('toggle', () => {
    if (all.open && all.children.length === 1) all.append(scoreLine(data, row, true));
  });
  const reasons = evidence.filter(item => item[1] || item[3] || item[4]);
  return el(
    'article',
    {class: 'answer'},
    el(
      'header',
      {},
      el('h3', {}, shown(data.models[rows.model[row]].label)),
      el('span', {class: 'faint small num'}, facts),
    ),
    scoreLine(data, row, false),
    data.metrics.length > data.deciding.flat().length ? all : null,
    chips
      ? el('div', {}, el('div', {class: 'faint small'}, 'Highlighted by'), chips)
      : pointing.length
        ? el('div', {class: 'faint small'}, 'Highlighted by ' + shown(data.evaluators[pointing[0][0]].name))
        : null,
    said,
    context,
    reasons.length
      ? el(
          'details',
          {open: reasons.length <= 3},
          el('summary', {}, 'Why'),
          el(
            'div',
            {class: 'stack'},
            reasons.map(item => evidenceBlock(data, item)),
          ),
        )
      : null,
  );
}

function caseBody(data, item, filters) {
  const rows = item.rows.filter(row => filters.model < 0 || data.rows.model[row] === filters.model);
  return el(
    'div',
    {class: 'inside'},
    field('Question', item.q === null ? el('span', {class: 'faint'}, 'None.') : textBlock(item.q)),
    item.x.length
      ? field(
          item.x.length > 1 ? 'Expected answers (any of them)' : 'Expected answer',
          item.x.map(text => textBlock(text)),
        )
      : null,
    item.c ? field('Condition', el('code', {}, shown(item.c))) : null,
    item.d.length
      ? field(
          'Expected documents',
          item.d.map(text => el('div', {}, el('code', {}, shown(text)))),
        )
      : null,
    item.o.length
      ? field(
          'Perturbed copy of',
          item.o.map(([key, how]) =>
            el(
              'div',
              {},
              el('button', {class: 'link', type: 'button', onclick: () => filters.openCase(key)}, shown(key)),
              how ? ` by ${shown(how)}` : '',
            ),
          ),
        )
      : null,
    el(
      'div',
      {class: 'answers'},
      rows.map(row => answerCard(data, row, filters.evaluator)),
    ),
  );
}

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
  const head = el(
    'button',
    {type: 'button', 'aria-expanded': 'false'},
    el('span', {class: 'title'}, shown((item.q || item.k).slice(0, 400))),
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
    at('case-only').hidden = !filters.only;
    at('case-only-label').textContent = filters.label;
    return opened;
  };
  const go = () => at('cases').scrollIntoView();
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
      at('case-empty').hidden = false;
      return;
    }
    const card = [...at('case-list').children].find(node => node.dataset.case === key);
    card.scrollIntoView();
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
  const named = decodeURIComponent(location.hash).match(/^#case=(.*)$/s);
  if (named) openCase(named[1]);
});
