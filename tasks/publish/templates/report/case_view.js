// One case: its question, the expected answer, and the models' answers side by side with what is wrong in them.

const SYMBOL = {pass: '✓', fail: '✗', lost: '?', none: '·'};
const RANK = {must: 0, should: 1, information: 2};
const STATES = ['fail', 'lost', 'pass', 'none'];
const MOST_CHECKS = 3;
const TITLE = 400;
const narrow = () => matchMedia('(max-width: 640px)').matches;

const shownLines = text => text.split('\n').map(shown).join('\n');
const trialFigure = value => (value === null ? '?' : figure(value));
const clipped = (text, most) => shown(text.length > most ? text.slice(0, most) + '…' : text);

/** Return the metrics of a row that have a score or lost it: by role, what fails first, and the worst of it first. */
function checksOf(data, row, chosen) {
  const lost = data.unscored[row] || {};
  return chosen
    .map(position => {
      const metric = data.metrics[position];
      const value = data.scores[position][row];
      const passes = data.passes(position, value);
      const state = value === null ? 'lost' : passes === null ? 'none' : passes ? 'pass' : 'fail';
      return {position, metric, value, state, reason: lost[metric.e], miss: state === 'fail' ? miss(metric, value) : 0};
    })
    .filter(check => check.value !== null || check.reason)
    .sort(
      (a, b) =>
        RANK[a.metric.role] - RANK[b.metric.role] ||
        STATES.indexOf(a.state) - STATES.indexOf(b.state) ||
        b.miss - a.miss ||
        a.position - b.position,
    );
}

/** Return how far a failing value is from its threshold: 0 at the threshold, 1 at the bad end of the range. */
function miss({threshold, hib, low, high}, value) {
  const limit = Number(threshold),
    room = Math.abs(limit - Number(hib ? low : high)),
    away = Math.abs(Number(value) - limit);
  return Number.isFinite(room) && room > 0 ? Math.min(1, away / room) : away / (1 + away);
}

const outcome = ({metric, value, state, reason}) =>
  state === 'lost'
    ? '? ' + shown(reason)
    : (metric.primary && metric.share && state !== 'none' ? state : figure(value, metric.share)) +
      (state === 'none' ? '' : ' ' + SYMBOL[state]);

/** Return what each trial gave where trials differ. */
function trialNote(data, row, position) {
  const trials = (data.trials[row] || {})[position];
  return trials && trials.some(one => one !== trials[0])
    ? el('span', {class: 'muted num'}, ` trials ${trials.map(trialFigure).join(' · ')}`)
    : null;
}

/** Return one score as a small label. */
function scoreChip(data, row, check) {
  const {metric, position, value, state, reason} = check;
  if (state === 'lost')
    return el('span', {class: 'score lost', title: shown(reason)}, shown(metric.label), el('b', {}, outcome(check)));
  const trials = (data.trials[row] || {})[position];
  const limit =
    metric.threshold === null ? 'no threshold' : `threshold ${metric.hib ? '≥' : '≤'} ${figure(metric.threshold)}`;
  return el(
    'span',
    {
      class: 'score ' + (metric.role === 'information' ? '' : state),
      title:
        `${shown(metric.name)}: ${value}, ${limit}` +
        (trials ? `, mean of trials ${trials.map(trialFigure).join(', ')}` : ''),
    },
    shown(metric.label),
    el('b', {}, outcome(check)),
    trialNote(data, row, position),
  );
}

/** Return the scores of an answer, grouped by role. */
function scoreGroups(data, row, chosen) {
  const checks = checksOf(data, row, chosen);
  return Object.keys(RANK)
    .map(role => checks.filter(check => check.metric.role === role))
    .filter(group => group.length)
    .map(group =>
      el(
        'div',
        {class: 'role'},
        el('span', {class: 'faint small'}, group[0].metric.role),
        el(
          'div',
          {class: 'scores'},
          group.map(check => scoreChip(data, row, check)),
        ),
      ),
    );
}

/** Return the words in which an evaluator explains its score, if it does. */
function saying([, message, , extra]) {
  if (message) return message;
  const said = extra && (typeof extra === 'string' ? extra : extra.rationale || extra.reason);
  return typeof said === 'string' ? said : '';
}

/** Return one evaluator's finding on one answer: why it scored so. */
function evidenceBlock(data, item) {
  const [evaluator, message, , extra, error] = item;
  const block = el('div', {class: 'why'}, el('b', {}, shown(data.evaluators[evaluator].name)));
  if (message) {
    block.append(': ');
    appendText(block, message);
  }
  if (error) {
    block.append(el('div', {class: 'muted'}, 'Instrument: ', shown(error)));
  }
  if (extra) {
    const said = saying([evaluator, '', [], extra]);
    if (said) block.append(textBlock(said));
    if (typeof extra !== 'string')
      block.append(
        el('details', {}, el('summary', {}, 'Details'), el('pre', {}, shownLines(JSON.stringify(extra, null, 1)))),
      );
  }
  return block;
}

/**
 * Turn spans in code points into marks in UTF-16 units that do not overlap; of several the worst value colours.
 * A span without a value has the kind that is given.
 */
function marksOf(text, spans, metric, unvalued = '') {
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
      const kind = results.includes(false) ? 'fail' : results.includes(true) ? 'pass' : unvalued;
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

/** Return what was retrieved for a row, folded; spansOf says which stretches of a chunk are marked. */
function contextBlock(data, row, marked) {
  const chunks = data.rows.context[row];
  if (!chunks.length) return null;
  return el(
    'details',
    {},
    el('summary', {}, plural(chunks.length + (data.rows.more[row] || 0), 'context chunk')),
    chunks.map(([text, doc], number) =>
      el(
        'div',
        {class: 'chunk'},
        el('div', {class: 'faint small'}, `${number + 1}`, doc ? ' · ' + shown(doc) : ''),
        textBlock(
          data.chunks.texts[text],
          marked(data.chunks.texts[text], 'retrieved_context', number),
          FOLD,
          data.chunks.cut[text],
        ),
      ),
    ),
    data.rows.more[row] ? el('div', {class: 'faint small'}, `${plural(data.rows.more[row], 'more chunk')}.`) : null,
  );
}

/** Return what a model answered, as a block of text with marks. */
function answerBlock(data, row, marked) {
  const {answer, error} = data.rows;
  if (error[row] !== null)
    return el(
      'div',
      {},
      el('span', {class: 'badge fail'}, '✗ The model’s host returned an error'),
      textBlock(error[row]),
    );
  if (answer[row] === null) return el('span', {class: 'faint'}, 'No answer.');
  if (answer[row] === '') return el('span', {class: 'faint'}, 'The answer is empty.');
  return textBlock(
    answer[row],
    marked(answer[row], 'actual_answer', 0),
    narrow() ? FOLD / 2 : FOLD,
    data.rows.cut[row],
  );
}

/** Return a line on the checks that could not be scored, null if all could. */
function lostLine(checks) {
  const lost = checks.filter(({state}) => state === 'lost');
  if (!lost.length) return null;
  const reasons = [...new Set(lost.map(({reason}) => shown(reason)))].join(', ');
  const names = lost.length > 2 ? plural(lost.length, 'check') : lost.map(({metric}) => shown(metric.label)).join(', ');
  return el('ul', {class: 'checks'}, el('li', {class: 'lost'}, `${names} `, el('b', {}, '? not scored: ' + reasons)));
}

/** Return one model's answer: its text, what fails and why, and folded all scores, contexts and reasons. */
function answerCard(data, row, evaluator) {
  const {rows} = data;
  const checks = checksOf(data, row, data.deciding.flat());
  const evidence = new Map((data.evidence[row] || []).map(item => [item[0], item]));
  const order = [...new Set([...checks.map(check => check.metric.e), ...evidence.keys()])];
  const reasons = order.map(e => evidence.get(e)).filter(Boolean);
  const pointing = reasons.filter(item => item[2].length);
  const wrong = checks.filter(
    ({state, metric}) => state === 'fail' && (metric.role !== 'information' || metric.e === evaluator),
  );
  const failing = new Set(wrong.map(({metric}) => metric.e));
  const metricOf = item => data.metrics[data.deciding[item[0]][0]] || null;
  const blamed = pointing.filter(item => failing.has(item[0]));
  const weak = item => {
    const metric = metricOf(item);
    return metric && metric.role !== 'information' && item[2].some(span => passesSpan(span, metric) === false);
  };
  let chosen =
    pointing.find(item => item[0] === evaluator) ||
    blamed.find(item => item[2].some(span => span.source === 'actual_answer')) ||
    blamed[0] ||
    pointing.find(weak) ||
    null;
  const said = el('div', {class: 'said'}),
    context = el('div', {});
  const buttons = [];
  const marked = (text, source, number) =>
    chosen
      ? marksOf(
          text,
          chosen[2].filter(span => span.source === source && (span.index || 0) === number),
          metricOf(chosen),
          source === 'actual_answer' && failing.has(chosen[0]) ? 'fail' : '',
        )
      : [];
  const draw = () => {
    said.replaceChildren(answerBlock(data, row, marked));
    const open = context.firstChild && context.firstChild.open;
    const drawn = contextBlock(data, row, marked);
    if (drawn) {
      drawn.open = Boolean(open);
      context.replaceChildren(drawn);
    }
    for (const [button, item] of buttons) button.setAttribute('aria-pressed', String(item === chosen));
  };
  /** Return an evaluator's name, as a button if it can mark what it found. */
  const highlighter = (e, label, kind) => {
    const item = evidence.get(e);
    if (!item || !item[2].length) return el('span', {class: 'name'}, label);
    const button = el(
      'button',
      {
        class: kind,
        type: 'button',
        title: 'Mark what it found',
        onclick: () => {
          chosen = item === chosen ? null : item;
          draw();
        },
      },
      label,
    );
    buttons.push([button, item]);
    return button;
  };
  const line = check => {
    const item = evidence.get(check.metric.e);
    const why = item ? saying(item) : '';
    return el(
      'li',
      {class: check.state},
      highlighter(check.metric.e, shown(check.metric.label), 'link name'),
      ' ',
      el('b', {class: 'num nowrap'}, outcome(check)),
      check.metric.role === 'must' ? ' ' : null,
      check.metric.role === 'must' ? el('span', {class: 'badge fail'}, 'must') : null,
      trialNote(data, row, check.position),
      why ? el('div', {class: 'muted small'}, clipped(why, 280)) : null,
    );
  };
  const counted = checks.filter(({metric, state}) => metric.role !== 'information' && state !== 'none');
  const passed = counted.filter(({state}) => state === 'pass').length;
  const more = el('details', {}, el('summary', {}, `Scores: ${passed} of ${plural(counted.length, 'check')} passed`));
  more.addEventListener('toggle', () => {
    if (!more.open || more.children.length > 1) return;
    more.append(...scoreGroups(data, row, data.deciding.flat()));
    if (data.metrics.length > data.deciding.flat().length) {
      const all = el('details', {}, el('summary', {}, 'All metrics'));
      all.addEventListener('toggle', () => {
        if (all.open && all.children.length === 1)
          all.append(...scoreGroups(data, row, data.metrics.map((_, position) => position)));
      });
      more.append(all);
    }
    if (pointing.length)
      more.append(
        el('div', {class: 'faint small'}, 'Highlight what they found'),
        el(
          'div',
          {class: 'scores', role: 'group', 'aria-label': 'Highlight'},
          pointing.map(item => highlighter(item[0], shown(data.evaluators[item[0]].name), 'btn small')),
        ),
      );
    draw();
  });
  const explained = reasons.filter(item => item[1] || item[3] || item[4]);
  const talk = dialogueBlock(data, row);
  const card = el(
    'article',
    {class: 'answer'},
    el(
      'header',
      {},
      el('h3', {}, shown(data.models[rows.model[row]].label)),
      el(
        'span',
        {class: 'faint small num'},
        [
          rows.duration[row] === null ? '' : figure(rows.duration[row]) + ' s',
          rows.cost[row] === null ? '' : '$' + Number(rows.cost[row].toPrecision(3)),
        ]
          .filter(Boolean)
          .join(' · '),
      ),
    ),
    talk,
    talk && severalTurns(data, row) ? null : said,
    wrong.length ? el('ul', {class: 'checks'}, wrong.slice(0, MOST_CHECKS).map(line)) : null,
    wrong.length > MOST_CHECKS
      ? el(
          'details',
          {},
          el('summary', {}, `${plural(wrong.length - MOST_CHECKS, 'more check')} failed`),
          el('ul', {class: 'checks'}, wrong.slice(MOST_CHECKS).map(line)),
        )
      : null,
    rows.error[row] === null ? lostLine(checks) : null,
    checks.length ? more : null,
    context,
    explained.length
      ? el(
          'details',
          {},
          el('summary', {}, 'Why'),
          el(
            'div',
            {class: 'stack'},
            explained.map(item => evidenceBlock(data, item)),
          ),
        )
      : null,
  );
  draw();
  return card;
}

/** Return a button that copies the address of a case. */
function copyLink(key) {
  const hash = '#case=' + encodeURIComponent(key);
  const button = el('button', {class: 'btn small', type: 'button'}, 'Copy link');
  button.addEventListener('click', async () => {
    history.replaceState(null, '', hash);
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = 'Copied ✓';
    } catch (error) {
      button.textContent = 'The address bar has the link';
    }
  });
  return button;
}

/** Return several texts of which any may be the answer, the first of them in full view. */
function expectedTexts({x, cut = {}}) {
  const lengths = cut.x || {};
  const blocks = x.map((text, n) => textBlock(text, [], narrow() ? 180 : 800, lengths[n] ? [0, lengths[n]] : null));
  if (cut.more) blocks.push(el('div', {class: 'faint small'}, `${cut.more.toLocaleString('en')} more.`));
  return blocks.length <= 3
    ? blocks
    : [...blocks.slice(0, 2), el('details', {}, el('summary', {}, `${blocks.length - 2} more`), blocks.slice(2))];
}

/** Return an opened case; the answers stand beside each other where there is room. */
function caseBody(data, item, filters) {
  const rows = item.rows.filter(row => filters.model < 0 || data.rows.model[row] === filters.model);
  const wholeQuestion = item.cut && item.cut.q ? [0, item.cut.q] : null;
  const histories = historiesOf(data, rows);
  const drawn = rows.some(row => data.dialogues[row] && data.dialogues[row].messages.length);
  return el(
    'div',
    {class: 'inside'},
    histories.length
      ? el(
          'div',
          {class: 'field'},
          histories.map(number => historyBlock(data, number, item, drawn)),
        )
      : null,
    item.q && !histories.length && (item.q.length > TITLE || wholeQuestion)
      ? el('div', {class: 'field'}, textBlock(item.q, [], narrow() ? 300 : 800, wholeQuestion))
      : item.q === null
        ? el('div', {class: 'faint'}, 'There is no question.')
        : null,
    item.x.length
      ? el(
          'div',
          {class: 'field expected'},
          el('div', {class: 'label'}, item.x.length > 1 ? 'Expected answer (any of them)' : 'Expected answer'),
          expectedTexts(item),
        )
      : null,
    el(
      'div',
      {class: 'answers'},
      rows.map(row => answerCard(data, row, filters.evaluator)),
    ),
    el(
      'div',
      {class: 'beside'},
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
      el('div', {class: 'copy'}, copyLink(item.k)),
    ),
  );
}
