-- The scores of rows, and how they compare with thresholds.

-- statement: row_means
-- Trials averaged within their row: a row is scored if some trial was, else unscored if some trial was, else not applicable.
CREATE OR REPLACE TEMP TABLE row_means AS
SELECT
    metric_id,
    row_id,
    CASE
        WHEN count(value) > 0 THEN 'scored'
        WHEN count(*) FILTER (status = 'unscored') > 0 THEN 'unscored'
        ELSE 'not_applicable'
    END::status AS status,
    CASE WHEN count(value) = 0 THEN min(reason) FILTER (status = 'unscored') END AS reason,
    avg(value) AS value
FROM scores
GROUP BY metric_id, row_id

-- statement: targets
-- The metrics that have a value per row. above is the least value on the upper side of the threshold: a value passes
-- when (value >= above) = upper_is_good. The threshold itself is good in both directions, so for a metric that is
-- better when lower the upper side starts at the next greater number. above is NULL without a threshold.
CREATE OR REPLACE TEMP TABLE targets AS
SELECT
    metrics.metric_id,
    higher_is_better AS upper_is_good,
    CASE WHEN higher_is_better THEN threshold ELSE nextafter(threshold, 'inf'::DOUBLE) END AS above,
    leaderboard <> 'bool' OR is_primary AS compared -- of a pass/fail board the other metrics repeat the primary one
FROM metrics
JOIN evaluators USING (evaluator_id)
WHERE NOT dataset_level

-- statement: turn_means
-- Turns of conversations of several by metric, trials averaged. fails is NULL without a threshold.
CREATE OR REPLACE TEMP VIEW turn_means AS
SELECT
    metric_id, model_id, conversation_id, turn,
    avg(value) AS value,
    (avg(value) >= any_value(above)) <> any_value(upper_is_good) AS fails
FROM turn_scores
JOIN (SELECT row_id AS conversation_id, model_id FROM rows) AS answered USING (conversation_id)
JOIN targets USING (metric_id)
WHERE value IS NOT NULL
GROUP BY metric_id, model_id, conversation_id, turn
