-- The history of a store: what tasks/runs/history.py keeps of each run, and reads of all.

-- statement: points
-- One line for each measured value of a run. `low` and `high` are its 95 % interval, `n` the rows that it stands on.
CREATE OR REPLACE TEMP TABLE points (
    run VARCHAR, measure VARCHAR, evaluator VARCHAR, metric VARCHAR, name VARCHAR, is_primary BOOLEAN, model VARCHAR,
    slice VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE, n UBIGINT, unscored UBIGINT, threshold DOUBLE, verdict VARCHAR,
    higher_is_better BOOLEAN, is_share BOOLEAN, config VARCHAR, judge VARCHAR, epoch INTEGER
);

-- statement: gather_published
-- What runs wrote when they were published, whoever copied their folders to where they are.
INSERT INTO points BY NAME
SELECT * EXCLUDE (filename) REPLACE (parse_path(filename)[-2] AS run) FROM read_parquet($published, filename = true);

-- statement: gather
-- What is measured in a run, whose tables are those of the database in use: means, what labels make of them, means in
-- slices, flips. Values between 0 and 1 are told in percentage points (`is_share`).
INSERT INTO points BY NAME
WITH known AS (
    SELECT
        metric_id, evaluator, metric, is_primary, metrics.threshold AS threshold, higher_is_better, config,
        coalesce(metrics.low = 0 AND metrics.high = 1, false) AS is_share,
        CASE WHEN is_primary THEN evaluators.name ELSE evaluators.name || ' · ' || metrics.name END AS name,
        identity->>'$.judge.model' AS judge, coalesce((identity->>'$.judge.epoch')::INTEGER, 0) AS epoch
    FROM metrics JOIN evaluators USING (evaluator_id)
), measured AS (
    SELECT
        metric_id, model_id, 'value' AS measure, NULL::VARCHAR AS slice, value, ci_low AS low, ci_high AS high,
        n_scored AS n, n_unscored AS unscored, verdict
    FROM aggregates
    UNION ALL
    SELECT
        metric_id, model_id, 'value', slice_column || '=' || slice_value, value, ci_low, ci_high, n_scored, n_unscored,
        NULL
    FROM slices
    WHERE model_id IS NOT NULL
    UNION ALL
    SELECT metric_id, model_id, 'corrected', NULL, value, ci_low, ci_high, n_labels, 0, verdict
    FROM corrections
    WHERE value IS NOT NULL
    UNION ALL
    SELECT metric_id, model_id, 'flips', NULL, rate, ci_low, ci_high, n_pairs, 0, NULL
    FROM flip_rates
    WHERE perturbation = '' AND n_pairs > 0
)
SELECT
    $run AS run, $models[model_id + 1] AS model, measured.* EXCLUDE (metric_id, model_id), known.* EXCLUDE (metric_id)
    REPLACE (
        CASE WHEN measure = 'value' THEN threshold END AS threshold, measure <> 'flips' AND higher_is_better
        AS higher_is_better, measure = 'flips' OR is_share AS is_share
    )
FROM measured JOIN known USING (metric_id)
WHERE slice IS NULL OR is_primary;

-- statement: gather_shares
-- The share of a model's answers that fail a question of the verdict, as the run has it from what decides its rows.
INSERT INTO points BY NAME
SELECT
    $run AS run, 'fails' AS measure, '' AS evaluator, question AS metric, question AS name, true AS is_primary,
    $models[model_id + 1] AS model, 1 - value AS value, 1 - ci_high AS low, 1 - ci_low AS high, n_decided AS n,
    n_asked - n_decided AS unscored, 1 - wanted AS threshold, outcome AS verdict, false AS higher_is_better,
    true AS is_share, '' AS config, 0 AS epoch
FROM answer_shares
WHERE value IS NOT NULL;

-- statement: others_asked
-- Whether there are other questions: looking for them takes a tenth of what gathering nothing would.
SELECT EXISTS (SELECT question FROM rules WHERE question NOT IN (SELECT question FROM answer_shares));

-- statement: gather_failing
-- The same of other questions: answers that miss the threshold of some metric that helps to answer it, with Wilson's interval.
INSERT INTO points BY NAME
WITH looked_at AS (
    SELECT question, row_id, bool_or(CASE WHEN higher_is_better THEN mean < threshold ELSE mean > threshold END) AS fails
    FROM (SELECT metric_id, row_id, avg(value) AS mean FROM scores WHERE status::VARCHAR = 'scored' GROUP BY ALL)
    JOIN metrics USING (metric_id)
    JOIN rules USING (metric_id)
    WHERE role <> 'information' AND NOT dataset_level AND threshold IS NOT NULL
    GROUP BY ALL
), counted AS (
    SELECT question, model_id, count(*) AS n, count(*) FILTER (WHERE fails) AS bad
    FROM looked_at JOIN (SELECT row_id, model_id FROM read_parquet($rows)) USING (row_id)
    WHERE question NOT IN (SELECT question FROM answer_shares)
    GROUP BY ALL
)
SELECT
    $run AS run, 'fails' AS measure, '' AS evaluator, question AS metric, question AS name, true AS is_primary,
    $models[model_id + 1] AS model, bad / n AS value, n, 0 AS unscored, false AS higher_is_better, true AS is_share,
    '' AS config, 0 AS epoch,
    greatest(0, (2 * bad + 3.8415 - 1.96 * sqrt(3.8415 + 4 * bad * (1 - bad / n))) / (2 * (n + 3.8415))) AS low,
    (2 * bad + 3.8415 + 1.96 * sqrt(3.8415 + 4 * bad * (1 - bad / n))) / (2 * (n + 3.8415)) AS high
FROM counted;

-- statement: labelled
-- The runs with metrics that people were asked about, or with means that labels corrected.
SELECT DISTINCT run
FROM read_parquet($files)
WHERE run IN (SELECT unnest($runs)) AND slice IS NULL
    AND (measure = 'corrected' OR (measure = 'value' AND evaluator || '.' || metric IN (SELECT unnest($questions))));

-- statement: correct_beside
-- Tables that hide a run's own and are filled by the labels of today; the run stays as it was published.
CREATE TEMP TABLE corrections AS FROM corrections LIMIT 0;
CREATE TEMP TABLE certificates AS FROM certificates LIMIT 0;
CREATE TEMP TABLE question_labels AS FROM question_labels LIMIT 0;

-- statement: corrected
FROM points WHERE measure = 'corrected';

-- statement: take_over
-- The points of files, without the means of some runs that were corrected again.
INSERT INTO points
FROM read_parquet($files) WHERE NOT (measure = 'corrected' AND run IN (SELECT unnest($again)));

-- statement: choices
-- All that is kept of runs: by metric, and by slice.
SELECT measure, evaluator, metric, any_value(name) AS name, bool_or(is_primary) AS is_primary,
    list(DISTINCT model) AS models, list(DISTINCT slice) FILTER (WHERE slice IS NOT NULL) AS slices
FROM read_parquet($files)
WHERE run IN (SELECT unnest($runs))
GROUP BY measure, evaluator, metric
ORDER BY measure, name, evaluator, metric;

-- statement: series
-- The points of one measure of one metric, of all models.
SELECT *
FROM read_parquet($files)
WHERE measure = $measure AND evaluator = $evaluator AND metric = $metric AND slice IS NOT DISTINCT FROM $slice
    AND run IN (SELECT unnest($runs));

-- statement: leading
-- The points in which a change is looked for in the whole store: metrics that stand for their evaluators, and questions.
SELECT * EXCLUDE (slice)
FROM read_parquet($files)
WHERE is_primary AND slice IS NULL AND measure IN ('value', 'fails') AND run IN (SELECT unnest($runs));

-- statement: judges
-- Who judged in which run, by evaluator.
SELECT DISTINCT run, evaluator, judge
FROM read_parquet($files)
WHERE judge IS NOT NULL AND slice IS NULL AND run IN (SELECT unnest($runs));
