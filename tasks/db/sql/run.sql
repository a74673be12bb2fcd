-- The tables of one run's database, runs/<run>/run.duckdb. One process writes it.
-- The texts of cases and rows stay in the dataset's Parquet files (see dataset.sql), attached as views when opened.

CREATE TYPE status AS ENUM ('scored', 'unscored', 'not_applicable');

-- Evaluators of this run, each in the configuration it ran with.
CREATE TABLE evaluators (
    evaluator_id USMALLINT PRIMARY KEY,
    evaluator    VARCHAR NOT NULL,      -- id, e.g. 'bleu'
    name         VARCHAR NOT NULL,
    family       VARCHAR NOT NULL,
    lane         VARCHAR NOT NULL,
    leaderboard  VARCHAR NOT NULL,      -- 'heatmap' or 'bool'
    config       VARCHAR NOT NULL,      -- digest of identity: the folder of its score segments
    identity     VARCHAR NOT NULL,      -- JSON: all that the scores depend on
    params       VARCHAR NOT NULL,      -- JSON: all parameters, those of the report included
    reused       UBIGINT NOT NULL,      -- distinct scores found in the store
    computed     UBIGINT NOT NULL,      -- distinct scores to compute in this run
    error        VARCHAR                -- why it could not run at all
);

CREATE TABLE metrics (
    metric_id        USMALLINT PRIMARY KEY,
    evaluator_id     USMALLINT NOT NULL,
    metric           VARCHAR NOT NULL,
    name             VARCHAR NOT NULL,
    description      VARCHAR NOT NULL,
    higher_is_better BOOLEAN NOT NULL,
    low              DOUBLE NOT NULL,
    high             DOUBLE NOT NULL,
    threshold        DOUBLE,            -- the run's threshold: a parameter or the metric's default
    is_primary       BOOLEAN NOT NULL,  -- it stands for its evaluator: the metric of the weightiest role
    is_share         BOOLEAN NOT NULL,  -- values are 0 or 1, the mean is a share
    dataset_level    BOOLEAN NOT NULL,  -- no value per row
    pooled           BOOLEAN NOT NULL   -- rows have values, but the model's is computed over all of them at once
);

-- What the gate's policy asks of each metric; see tasks/policy.
CREATE TABLE rules (
    metric_id       USMALLINT PRIMARY KEY,
    role            VARCHAR NOT NULL DEFAULT 'should',  -- 'must', 'should', 'information'
    question        VARCHAR NOT NULL DEFAULT 'right',   -- what it helps to answer: 'safe', 'right', 'grounded', 'form', 'fast'
    proof           VARCHAR NOT NULL DEFAULT 'none',    -- what it can show of that: 'none', 'likeness', 'mean', 'exact', 'estimate'
    right_that_pass DOUBLE[] NOT NULL DEFAULT [0, 0],   -- of an estimate: right answers that it passes, and of how many
    wrong_that_fail DOUBLE[] NOT NULL DEFAULT [0, 0],   -- likewise wrong ones that it fails
    tolerance_rows  UBIGINT NOT NULL DEFAULT 0,    -- rows of a model that may fail a must metric
    tolerance_share DOUBLE NOT NULL DEFAULT 0,     -- share of its scored rows that may; the larger of both counts
    surely          BOOLEAN NOT NULL DEFAULT false, -- it blocks only where more than that share surely fails
    min_pass_share  DOUBLE NOT NULL DEFAULT 0,     -- least share of its scored rows that must satisfy a should metric
    min_coverage    DOUBLE NOT NULL DEFAULT 0.95,  -- least share of applicable rows that must be scored
    min_rows        UBIGINT NOT NULL DEFAULT 1,    -- least number of scored rows that can fail the gate
    weight          DOUBLE NOT NULL DEFAULT 1,     -- how harmful a failing answer is, against 1 for an ordinary one
    slices          VARCHAR[] NOT NULL DEFAULT [], -- columns within each value of which it must pass too
    use             VARCHAR NOT NULL DEFAULT 'judge', -- what the gate decides by: the 'judge', or its 'corrected' values
    judged          BOOLEAN NOT NULL DEFAULT false, -- its evaluator asks a judge
    named           BOOLEAN NOT NULL DEFAULT false -- its evaluator was asked for by id
);

-- One line per (metric, row, trial). value is NULL unless status is 'scored'.
CREATE TABLE scores (
    metric_id USMALLINT NOT NULL,
    row_id    UINTEGER NOT NULL,
    trial     UTINYINT NOT NULL,
    status    status NOT NULL,
    reason    VARCHAR,                  -- why it is unscored or not applicable
    value     DOUBLE
);

-- What a score rests on; a line only where there is something to say. JSON takes a sixth of its length with zstd, half
-- with what DuckDB takes by itself.
CREATE TABLE evidence (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL,
    trial        UTINYINT NOT NULL,
    evidence     VARCHAR USING COMPRESSION zstd,  -- JSON: {"message", "spans": [{source,start,end,index,value,note}], "data"}
    flags        VARCHAR,                         -- JSON: [{"type","severity","message"}]
    payload      VARCHAR USING COMPRESSION zstd,  -- JSON for dataset-level aggregation
    error        VARCHAR                          -- the instrument's message where the row is unscored
);

-- Per model and metric; model_id matches the dataset's models.
CREATE TABLE aggregates (
    metric_id  USMALLINT NOT NULL,
    model_id   USMALLINT NOT NULL,
    n_rows     UBIGINT NOT NULL,        -- rows of the model
    n_scored   UBIGINT NOT NULL,
    n_unscored UBIGINT NOT NULL,
    n_not_applicable UBIGINT NOT NULL,
    reasons    VARCHAR NOT NULL,        -- JSON: {"reason": count} of the unscored
    value      DOUBLE,                  -- mean of the rows, or the dataset-level value; NULL when nothing was scored
    ci_low     DOUBLE,
    ci_high    DOUBLE,
    ci_method  VARCHAR,                 -- 'exact', 'bounded', 't', 'trusting', 'bootstrap', 'ranks', 'posterior', …, see docs/statistics.md; or NULL
    std        DOUBLE,
    minimum    DOUBLE,
    maximum    DOUBLE,
    if_worst   DOUBLE,                  -- value if every unscored row had the worst value of the range
    if_best    DOUBLE,                  -- value if every unscored row had the best
    threshold  DOUBLE,
    n_pass     UBIGINT,                 -- scored rows that satisfy the threshold
    pass_share DOUBLE,
    pass_low   DOUBLE,                  -- 95 % interval of pass_share
    pass_high  DOUBLE,
    verdict    VARCHAR                  -- 'pass', 'fail', 'inconclusive', NULL without a threshold
);

-- What an evaluator has to say of a model beyond its metrics: curves, confusion matrices, values by label, examples.
CREATE TABLE details (
    evaluator_id USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    details      VARCHAR NOT NULL       -- JSON, see evaluators/data/details.py
);

-- What a judge's mean is by people's labels, per metric and model; see tasks/judges/labels. Metrics that pass or fail rows have
-- the share of good answers, others the mean label.
CREATE TABLE corrections (
    metric_id    USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    label_set    VARCHAR NOT NULL,
    n_labels     UBIGINT NOT NULL,      -- labelled rows of the model
    n_people     UBIGINT NOT NULL,
    n_groups     UBIGINT NOT NULL,      -- independent cases among them: an original and its copies are one
    judged       UBIGINT NOT NULL,      -- rows that the judge scored
    is_share     BOOLEAN NOT NULL,      -- shares of rows that pass, or means
    judge        DOUBLE NOT NULL,       -- what the judge says of them
    value        DOUBLE,                -- what people would say; NULL where labels only compare
    ci_low       DOUBLE,
    ci_high      DOUBLE,
    method       VARCHAR,               -- 'post-stratified', 'ppi++', 'stratified ppi++', 'active', 'rogan-gladen'
    weight       DOUBLE,                -- lambda of PPI++: the share of the judge's scores that is used
    labels_value DOUBLE,                -- from the labels alone
    labels_low   DOUBLE,
    labels_high  DOUBLE,
    bias         DOUBLE,                -- judge less value
    bias_low     DOUBLE,
    bias_high    DOUBLE,
    wanted       DOUBLE,                -- the share of good answers that the gate asks for; NULL for means
    verdict      VARCHAR                -- 'pass', 'fail', 'inconclusive' by that, NULL without one
);

-- How far people and a judge's configuration agree, per metric that people were asked about.
CREATE TABLE certificates (
    metric_id     USMALLINT NOT NULL,
    config        VARCHAR NOT NULL,     -- digest of prompt, judge and parameters of this run
    judge         VARCHAR NOT NULL,     -- the judge's model, or ''
    label_set     VARCHAR NOT NULL,
    state         VARCHAR NOT NULL,     -- 'none', 'few', 'not drawn', 'open', 'failed', 'valid', 'stale'
    borrowed      BOOLEAN NOT NULL,     -- earned on rows that are not in this run
    held_out      BOOLEAN NOT NULL,     -- earned on the half of the labels that no prompt was chosen by
    earned        VARCHAR,              -- ISO time
    earned_config VARCHAR,              -- by which configuration; another one where the state is 'stale'
    n_labels      UBIGINT NOT NULL,     -- labelled rows that the judge scored
    n_people      UBIGINT NOT NULL,
    labelled_from VARCHAR,              -- ISO times of the first and last label
    labelled_to   VARCHAR,
    accuracy      DOUBLE,
    kappa         DOUBLE,
    kappa_low     DOUBLE,
    kappa_high    DOUBLE,
    ac1           DOUBLE,
    alpha         DOUBLE,               -- Krippendorff's, judge against people
    people_alpha  DOUBLE,               -- people against each other: a judge's ceiling
    recall_fail   DOUBLE,               -- share of the bad answers that the judge fails
    recall_pass   DOUBLE,               -- share of the good answers that it passes
    rank_correlation DOUBLE,            -- Spearman's, for numbers
    to_judge      UBIGINT NOT NULL,     -- labelled rows of the set that this configuration was not asked about
    more_labels   UBIGINT               -- about how many more would tell where the state is 'few' or 'open'
);

-- Per question that rows decide and model: the share of its answers that are good; see tasks/analyse/answer_shares.py.
CREATE TABLE answer_shares (
    question   VARCHAR NOT NULL,        -- 'right', 'grounded'
    model_id   USMALLINT NOT NULL,
    n_asked    UBIGINT NOT NULL,        -- rows that it can be asked of
    n_decided  UBIGINT NOT NULL,        -- of these, rows that some metric decides
    n_good     UBIGINT NOT NULL,        -- of these, rows that pass it
    n_cases    UBIGINT NOT NULL,        -- distinct cases among those decided
    exact      BOOLEAN NOT NULL,        -- nothing that decides them errs
    value      DOUBLE,                  -- share of good answers, corrected for such errors; NULL where no row was decided
    ci_low     DOUBLE NOT NULL,         -- 95 % interval; rows that nothing decided may be good or bad
    ci_high    DOUBLE NOT NULL,
    wanted     DOUBLE NOT NULL,         -- the share that is asked for
    outcome    VARCHAR NOT NULL,        -- 'pass', 'fail', 'open'
    n_labels   UBIGINT NOT NULL,        -- labels of people that decide it; 0 where metrics do
    evaluators VARCHAR[] NOT NULL       -- what decides the rows, that of most rows first
);

-- What people said of answers, asked the question itself: of rows that were drawn at random, or of all rows of a model.
CREATE TABLE question_labels (
    question VARCHAR NOT NULL,          -- 'right', 'grounded'
    row_id   UINTEGER NOT NULL,
    good     DOUBLE NOT NULL            -- 1 or 0, one half for a tie
);

-- The verdict: an answer to each question that a person asks of a run.
CREATE TABLE verdicts (
    question VARCHAR PRIMARY KEY,
    asked    BOOLEAN NOT NULL,          -- it must be decided for the gate to pass
    outcome  VARCHAR NOT NULL,          -- 'pass', 'fail', 'inconclusive', 'not looked at'
    reason   VARCHAR NOT NULL,          -- in a sentence or two
    remedy   VARCHAR NOT NULL           -- what would decide it, or ''
);

-- How much the trials of judged rows differ, per model and metric; no line where every row was scored once.
CREATE TABLE trial_spread (
    metric_id    USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    n_trials     UTINYINT NOT NULL,     -- trials asked for
    n_rows       UBIGINT NOT NULL,      -- rows scored in at least two of them
    n_differ     UBIGINT NOT NULL,      -- of those, rows whose trials have different values
    differ_share DOUBLE NOT NULL,
    n_cross      UBIGINT,               -- rows whose trials stand on two sides of the threshold; NULL without one
    cross_share  DOUBLE,
    within_std   DOUBLE,                -- pooled standard deviation of the trials of a row
    lowest_mean  DOUBLE,                -- of the means of single trials, over the rows that every trial scored
    highest_mean DOUBLE,
    means_std    DOUBLE,
    between_std  DOUBLE,                -- standard deviation between rows, beyond what trials explain
    reliability  DOUBLE,                -- share of the variance of single trials that lies between rows
    rerun_std    DOUBLE                 -- how far the metric's mean moves when the same rows are judged again
);

-- Scores of further trials of rows that were judged again only to measure the judge's noise. They count nowhere else: which
-- rows they are may depend on what the first trial said.
CREATE TABLE repeats (
    metric_id USMALLINT NOT NULL,
    row_id    UINTEGER NOT NULL,
    trial     UTINYINT NOT NULL,        -- from 1 on; trial 0 is in scores
    value     DOUBLE NOT NULL,
    same_reason BOOLEAN                 -- its reason is, byte by byte, that of the first trial; NULL for less than 30 letters
);

-- Pairs of an original row and a perturbed one that were judged again: all that turned on some metric of the evaluator in
-- the first trial, and a part of the others, drawn at random.
CREATE TABLE judged_again (
    evaluator_id     USMALLINT NOT NULL,
    model_id         USMALLINT NOT NULL,
    original_row_id  UINTEGER NOT NULL,
    perturbed_row_id UINTEGER NOT NULL,
    turned           BOOLEAN NOT NULL,
    stands_for       DOUBLE NOT NULL     -- 1 / the chance to be judged again
);

-- What was known after each wave of a run that judges until its outcome is decided, per metric and model.
CREATE TABLE stopping (
    wave       UTINYINT NOT NULL,
    metric_id  USMALLINT NOT NULL,
    model_id   USMALLINT NOT NULL,
    question   VARCHAR NOT NULL,        -- 'value': of its mean; 'passes': of the share that passes; 'change': since the baseline
    clusters   UBIGINT NOT NULL,        -- cases judged so far, each with its copies
    rows       UBIGINT NOT NULL,        -- rows scored so far
    log_e_pass DOUBLE NOT NULL,         -- evidence for a pass: logarithm of an e-value
    log_e_fail DOUBLE NOT NULL,         -- evidence for a failure
    decision   VARCHAR NOT NULL         -- 'pass', 'fail', 'open'
);

-- An original and a perturbed case whose rows of one model stand on two sides of the threshold.
CREATE TABLE flips (
    metric_id         USMALLINT NOT NULL,
    model_id          USMALLINT NOT NULL,
    original_case_id  UINTEGER NOT NULL,
    perturbed_case_id UINTEGER NOT NULL,
    original_row_id   UINTEGER NOT NULL,
    perturbed_row_id  UINTEGER NOT NULL,
    original_value    DOUBLE NOT NULL,
    perturbed_value   DOUBLE NOT NULL,
    threshold         DOUBLE NOT NULL,
    direction         VARCHAR NOT NULL, -- 'passed_to_failed' or 'failed_to_passed'
    perturbation      VARCHAR,          -- what was done to the case, as far as the dataset says
    confirmed         BOOLEAN           -- all trials of each row agree; NULL where a row has less than two
);

-- Per metric, model and perturbation: how many pairs could be compared, and how many flipped.
CREATE TABLE flip_rates (
    metric_id    USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    perturbation VARCHAR NOT NULL,      -- '' for all together
    n_pairs      UBIGINT NOT NULL,
    n_passed_to_failed UBIGINT NOT NULL,
    n_failed_to_passed UBIGINT NOT NULL,
    rate         DOUBLE NOT NULL,       -- flips / pairs
    ci_low       DOUBLE NOT NULL,       -- 95 % interval
    ci_high      DOUBLE NOT NULL,
    n_pairs_repeated UBIGINT NOT NULL,  -- pairs of which both rows were judged at least twice
    noise        DOUBLE,                -- the rate at which the judge flips by itself; 0 for what asks no judge
    net          DOUBLE,                -- the rate without this noise, may be negative; NULL where it was not measured
    net_low      DOUBLE,                -- 95 % interval
    net_high     DOUBLE,
    net_method   VARCHAR,               -- 'deterministic', 'trials', 'two-phase', 'sub-sample', see docs/statistics.md
    n_same_answer UBIGINT NOT NULL,     -- pairs whose rows have the same answer
    n_flips_same_answer UBIGINT NOT NULL,  -- flips among them
    net_same_answer DOUBLE,             -- the net rate of these pairs: what the judge makes of the changed question
    net_same_low DOUBLE,
    net_same_high DOUBLE
);

-- Whose the net flips are, per metric, model and perturbation, of the pairs that were judged again together with a third
-- row: the copy's answer under the original's question.
CREATE TABLE flip_causes (
    metric_id    USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    perturbation VARCHAR NOT NULL,      -- '' for all together
    n_pairs      UBIGINT NOT NULL,      -- pairs whose three rows were judged at least twice
    answer       DOUBLE NOT NULL,       -- the net rate at which the answer changes the verdict, may be negative
    answer_low   DOUBLE NOT NULL,       -- 95 % interval
    answer_high  DOUBLE NOT NULL,
    judge        DOUBLE NOT NULL,       -- the net rate at which the changed question does, of the same answer
    judge_low    DOUBLE NOT NULL,
    judge_high   DOUBLE NOT NULL,
    method       VARCHAR NOT NULL       -- 'two-phase', see docs/statistics.md
);

-- The rows of each slice: those that share a value of a column. A row is in as many slices as it has values.
CREATE TABLE slice_rows (
    slice_column VARCHAR NOT NULL,      -- 'category', 'language', 'question_length', ..., or a key of the metadata
    slice_value  VARCHAR NOT NULL,
    row_id       UINTEGER NOT NULL
);

-- Per slice, metric and model, and of all models together: the mean, and how it differs from all other rows.
CREATE TABLE slices (
    slice_column VARCHAR NOT NULL,
    slice_value  VARCHAR NOT NULL,
    metric_id    USMALLINT NOT NULL,
    model_id     USMALLINT,             -- NULL for all models together
    n_rows       UBIGINT NOT NULL,
    n_cases      UBIGINT NOT NULL,      -- independent cases: an original and its copies are one
    n_scored     UBIGINT NOT NULL,
    n_unscored   UBIGINT NOT NULL,
    n_pass       UBIGINT,               -- scored rows that satisfy the threshold
    value        DOUBLE,
    ci_low       DOUBLE,
    ci_high      DOUBLE,
    rest_value   DOUBLE,                -- the mean of the other rows
    difference   DOUBLE,                -- value less rest_value; of all models, each taken from its own mean
    p_value      DOUBLE,                -- two-sided; NULL for too few cases in the slice or outside, metrics that inform, equal values
    q_value      DOUBLE                 -- Benjamini-Hochberg over all slices and metrics, apart for single models and for all together
);

CREATE TABLE problems (
    problem_id   UINTEGER PRIMARY KEY,  -- order of display: severity, then harm
    severity     VARCHAR NOT NULL,      -- 'high', 'medium', 'low'
    type         VARCHAR NOT NULL,      -- accuracy, classification, robustness, retrieval, dataset, cost, evaluation, ...
    question     VARCHAR NOT NULL DEFAULT '', -- the question of the verdict that it bears on, or ''
    kind         VARCHAR NOT NULL,      -- failing_rows, missed_threshold, flips, slice, failure_cluster, unscored, ...
    fault        VARCHAR NOT NULL,      -- who is at fault: 'model', 'data', 'instrument'
    instrument   BOOLEAN NOT NULL,      -- it is not a model: fault <> 'model'
    harm         DOUBLE NOT NULL,       -- orders problems of the same severity
    evaluator_id USMALLINT,
    metric_id    USMALLINT,
    model_id     USMALLINT,
    description  VARCHAR NOT NULL,
    actions      VARCHAR NOT NULL,      -- what to do about it
    attrs        VARCHAR NOT NULL,      -- JSON object, see docs/problems-and-insights.md
    row_ids      UINTEGER[] NOT NULL    -- the rows concerned, at most 1,000
);

CREATE TABLE insights (
    insight_id   UINTEGER PRIMARY KEY,
    type         VARCHAR NOT NULL,      -- accuracy, performance, cost, retrieval, weak-point, grounding, ...
    evaluator_id USMALLINT,
    metric_id    USMALLINT,
    model_id     USMALLINT,
    description  VARCHAR NOT NULL,
    actions      VARCHAR NOT NULL,
    attrs        VARCHAR NOT NULL,
    row_ids      UINTEGER[] NOT NULL
);

-- The run that this one was compared with, in one line; no line where nothing was to be compared.
CREATE TABLE baseline (
    baseline_run  VARCHAR,              -- NULL where no baseline was found or could be read; then the note says why
    name          VARCHAR NOT NULL,
    tag           VARCHAR NOT NULL,     -- the tag by which it was found, or ''
    dataset_name  VARCHAR NOT NULL,
    started       VARCHAR NOT NULL,     -- ISO time
    new_cases     UBIGINT NOT NULL,     -- cases that only this run's dataset has
    removed_cases UBIGINT NOT NULL,     -- cases that only the baseline's has
    note          VARCHAR NOT NULL,
    notes         VARCHAR[] NOT NULL    -- sentences for the reader
);

-- Per model that both runs have: how its rows and answers differ from those in the baseline.
CREATE TABLE model_changes (
    model_id       USMALLINT NOT NULL,
    baseline_model VARCHAR NOT NULL,    -- key of the model it was compared with
    verdict        VARCHAR NOT NULL,    -- 'pass', 'fail', 'inconclusive': whether it is worse by more than the margins
    reason         VARCHAR NOT NULL,    -- one sentence
    n_rows         UBIGINT NOT NULL,    -- cases that both runs have an answer of the model to
    n_same_answers UBIGINT NOT NULL,    -- of those, with the same answer and context
    n_changed      UBIGINT NOT NULL     -- cases left out since their question or expectation differs
);

-- Per metric and model: what `leadline compare` says of them. Positive effects are better, whatever the metric.
CREATE TABLE metric_changes (
    metric_id  USMALLINT NOT NULL,
    model_id   USMALLINT NOT NULL,
    verdict    VARCHAR NOT NULL,        -- 'pass', 'fail', 'inconclusive', 'incomparable', 'one_sided', 'not_applicable'
    change     VARCHAR NOT NULL,        -- 'better', 'worse', 'none shown'
    reason     VARCHAR NOT NULL,        -- one sentence
    baseline   DOUBLE,                  -- over the cases that both runs scored
    candidate  DOUBLE,
    effect     DOUBLE,
    ci_low     DOUBLE,
    ci_high    DOUBLE,
    n_pairs    UBIGINT NOT NULL,
    n_unscored UBIGINT NOT NULL
);

-- Rows that stand on another side of a threshold than in the baseline.
CREATE TABLE row_changes (
    metric_id       USMALLINT NOT NULL,
    row_id          UINTEGER NOT NULL,
    broken          BOOLEAN NOT NULL,   -- passed and now fails; else fixed
    baseline        DOUBLE NOT NULL,
    candidate       DOUBLE NOT NULL,
    same_answer     BOOLEAN NOT NULL,   -- answer and context are the same: the instrument changed its mind
    baseline_answer VARCHAR             -- cut, of the rows that a report shows
);
