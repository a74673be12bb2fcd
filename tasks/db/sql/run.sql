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
    is_primary       BOOLEAN NOT NULL,
    is_share         BOOLEAN NOT NULL,  -- values are 0 or 1, the mean is a share
    dataset_level    BOOLEAN NOT NULL,  -- no value per row
    pooled           BOOLEAN NOT NULL   -- rows have values, but the model's is computed over all of them at once
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

-- What a score rests on; a line only where there is something to say.
CREATE TABLE evidence (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL,
    trial        UTINYINT NOT NULL,
    evidence     VARCHAR,               -- JSON: {"message", "spans": [{source,start,end,index,value,note}], "data"}
    flags        VARCHAR,               -- JSON: [{"type","severity","message"}]
    payload      VARCHAR,               -- JSON for dataset-level aggregation
    error        VARCHAR                -- the instrument's message where the row is unscored
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
    ci_method  VARCHAR,                 -- 'wilson', 't', 'rule_of_three', 'bootstrap', NULL without an interval
    std        DOUBLE,
    minimum    DOUBLE,
    maximum    DOUBLE,
    if_worst   DOUBLE,                  -- value if every unscored row had the worst value of the range
    if_best    DOUBLE,                  -- value if every unscored row had the best
    threshold  DOUBLE,
    n_pass     UBIGINT,                 -- scored rows that satisfy the threshold
    pass_share DOUBLE,
    pass_low   DOUBLE,                  -- 95 % Wilson interval of pass_share
    pass_high  DOUBLE,
    verdict    VARCHAR                  -- 'pass', 'fail', 'inconclusive', NULL without a threshold
);

-- What an evaluator has to say of a model beyond its metrics: curves, confusion matrices, values by label, examples.
CREATE TABLE details (
    evaluator_id USMALLINT NOT NULL,
    model_id     USMALLINT NOT NULL,
    details      VARCHAR NOT NULL       -- JSON, see evaluators/core/details.py
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
    means_std    DOUBLE
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
    perturbation      VARCHAR           -- what was done to the case, as far as the dataset says
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
    ci_low       DOUBLE NOT NULL,       -- 95 % Wilson interval
    ci_high      DOUBLE NOT NULL
);

CREATE TABLE problems (
    problem_id   UINTEGER PRIMARY KEY,  -- order of display: severity, then type, then evaluator
    severity     VARCHAR NOT NULL,      -- 'high', 'medium', 'low'
    type         VARCHAR NOT NULL,      -- accuracy, classification, robustness, retrieval, dataset, cost, evaluation, ...
    instrument   BOOLEAN NOT NULL,      -- the instrument or the data is at fault, not a model
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
