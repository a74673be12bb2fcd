// A conversation: who said what, the tools that were called, what each turn scored, and the steps behind it.

const WHO = {user: 'User', assistant: 'Assistant', system: 'System', tool: 'Tool'};

/** Return one call of a tool, folded: its arguments, what it returned, and whether that was an error. */
function callBlock([name, given, result, error]) {
  return el(
    'details',
    {class: error === null ? 'call' : 'call fail'},
    el('summary', {}, el('code', {}, shown(name)), error === null ? '' : el('b', {class: 'bad'}, ' failed')),
    el('div', {class: 'label'}, 'Arguments'),
    el('pre', {}, shownLines(given)),
    error ? el('div', {}, el('div', {class: 'label'}, 'Error'), el('pre', {}, shownLines(error))) : null,
    el('div', {class: 'label'}, 'Result'),
    result === null ? el('span', {class: 'faint'}, 'None is recorded.') : textBlock(result, [], 800),
  );
}

/** Return what a turn scored by the metrics that it fails, and how many it passes. */
function turnScores(data, scores, turn) {
  const chips = [];
  let passed = 0;
  for (const [position, values] of Object.entries(scores)) {
    const metric = data.metrics[position];
    const value = values[turn - 1];
    if (!metric.primary || value === null || value === undefined) continue;
    const passes = data.passes(position, value);
    if (passes === false && metric.role !== 'information')
      chips.push(el('span', {class: 'score fail'}, shown(metric.label), el('b', {}, figure(value))));
    else if (passes) passed += 1;
  }
  if (!chips.length && !passed) return null;
  return el('div', {class: 'scores turn-scores'}, chips, passed ? el('span', {class: 'faint small'}, `${passed} passed`) : '');
}

/** Return the number of the first turn that fails a metric which must or should hold, 0 where none does. */
function firstFailingTurn(data, scores) {
  let first = 0;
  for (const [position, values] of Object.entries(scores)) {
    if (!data.metrics[position].primary || data.metrics[position].role === 'information') continue;
    const turn = values.findIndex(value => data.passes(position, value) === false) + 1;
    if (turn && (!first || turn < first)) first = turn;
  }
  return first;
}

/** Return the steps as a waterfall, folded. */
function waterfall(steps) {
  if (!steps.length) return null;
  const whole = Math.max(1, ...steps.map(([, , start, took]) => start + took));
  const line = ([kind, name, start, took, depth, tokens, error]) => {
    const bar = el('span', {class: `step-bar ${kind}${error === null ? '' : ' fail'}`});
    bar.style.marginLeft = `${(100 * start) / whole}%`;
    bar.style.width = `${Math.max(0.5, (100 * took) / whole)}%`;
    const label = el('span', {class: 'step-name'}, shown(name));
    label.style.paddingLeft = `${depth * 0.8}em`;
    const told = [`${figure(took / 1000)} s`, tokens ? `${tokens.toLocaleString('en')} tokens` : '', error ? 'failed' : ''];
    return el(
      'li',
      {title: error ? shown(error) : null},
      label,
      el('span', {class: 'track'}, bar),
      el('span', {class: 'faint small num'}, told.filter(Boolean).join(' · ')),
    );
  };
  return el(
    'details',
    {class: 'waterfall'},
    el('summary', {}, `${plural(steps.length, 'step')}, ${figure(whole / 1000)} s`),
    el('ol', {}, steps.map(line)),
  );
}

/** Return whether a row is a conversation of several turns. */
function severalTurns(data, row) {
  const talk = data.dialogues[row];
  return Boolean(talk) && Math.max(0, ...talk.turns) > 1;
}

/** Return one message with the calls in it. */
function messageBlock([role, text, calls, name], fold, part = null) {
  return el(
    'li',
    {class: `message ${role}`},
    el('span', {class: 'label'}, WHO[role] + (name ? ` ${shown(name)}` : '')),
    text ? textBlock(text, [], fold, part) : null,
    calls.map(callBlock),
  );
}

/** Return the histories of rows, each once, by number. */
function historiesOf(data, rows) {
  const numbers = rows.map(row => (data.dialogues[row] || {history: null}).history);
  return [...new Set(numbers.filter(number => number !== null))];
}

/** Return what was said before a question, and the question, which dialogues of answers begin with. */
function historyBlock(data, number, {q, cut = {}}, drawn) {
  const before = data.histories[number];
  return el(
    'details',
    {class: 'talk', open: true},
    el('summary', {}, `Said before, as evaluators read it: ${plural(before.length, 'message')}`),
    el(
      'ol',
      {class: 'dialogue', tabindex: 0, 'aria-label': 'Said before'},
      before.map(message => messageBlock(message, 240)),
      q && !drawn ? messageBlock(['user', q, [], ''], 800, cut.q ? [0, cut.q] : null) : null,
    ),
  );
}

/** Return the dialogue of a row, null for a row that is none: a single question and answer without calls. */
function dialogueBlock(data, row) {
  const talk = data.dialogues[row];
  if (!talk || !(talk.messages.length || talk.long || talk.steps.length)) return null;
  const count = Math.max(0, ...talk.turns);
  const first = firstFailingTurn(data, talk.scores);
  const list = el('ol', {class: 'dialogue', tabindex: 0, 'aria-label': 'Messages'});
  talk.messages.forEach((message, place) => {
    const turn = talk.turns[place];
    if (count > 1 && turn && turn !== (talk.turns[place - 1] || 0))
      list.append(el('li', {class: turn === first ? 'turn bad' : 'turn'}, `Turn ${turn}`, turnScores(data, talk.scores, turn)));
    list.append(messageBlock(message, 800));
  });
  const heading = count > 1 ? plural(count, 'turn') : 'Messages';
  const failing = first ? `, first failing turn ${first}` : '';
  return el(
    'details',
    {class: 'talk', open: true},
    el('summary', {}, heading + failing),
    talk.long ? el('div', {class: 'faint'}, 'The conversation is too long to be drawn here.') : list,
    talk.more ? el('div', {class: 'faint small'}, `${plural(talk.more, 'more message')}.`) : null,
    waterfall(talk.steps),
  );
}
