-- Judging in waves until the outcome is decided. Names in braces are filled in by tasks/stopping.

-- statement: waves
-- The rows that judges are to score, by wave, and conversations with their turns. An original and its copies, with all
-- models' rows, are one cluster; place counts clusters in an order that is drawn from the digest of the original's key and
-- does not depend on any score.
CREATE OR REPLACE TABLE waves AS
WITH members AS (
    SELECT
        row_id,
        case_key,
        coalesce(family, -1 - case_id::BIGINT) AS cluster,
        case_id IN (SELECT case_id FROM relationships WHERE case_id <> original_case_id) AS is_copy
    FROM (
        SELECT DISTINCT unnest([row_id, conversation_id]) AS row_id, case_id
        FROM plan
        JOIN (SELECT row_id, conversation_id, case_id FROM all_rows) USING (row_id)
        WHERE state = 'score' AND evaluator_id IN (SELECT unnest($evaluators::USMALLINT[]))
    )
    JOIN cases USING (case_id)
    LEFT JOIN families USING (case_id)
),
named AS (
    SELECT cluster, coalesce(min(case_key) FILTER (NOT is_copy), min(case_key)) AS name FROM members GROUP BY cluster
),
placed AS (
    SELECT cluster, row_number() OVER (ORDER BY sha256(concat($seed, name)), name, cluster) - 1 AS place FROM named
)
SELECT row_id, place::UINTEGER AS place, 0::UTINYINT AS wave
FROM members
JOIN placed USING (cluster)

-- statement: number_waves
UPDATE waves SET wave = greatest(0, (place::BIGINT * $waves) // $clusters - $joined)

-- statement: first_rows
-- Of equal rows, that of the earliest wave is the one that is computed.
CREATE OR REPLACE TEMP TABLE first_rows AS
SELECT
    to_compute.evaluator_id,
    arg_min(plan.row_id, (wave, plan.row_id)) AS row_id,
    to_compute.trial,
    to_compute.key
FROM to_compute
JOIN reading USING (evaluator_id)
JOIN keys ON keys.key = to_compute.key AND keys.reads_id = reading.reads_id
JOIN plan ON plan.row_id = keys.row_id AND plan.evaluator_id = to_compute.evaluator_id AND plan.state = 'score'
JOIN waves ON waves.row_id = plan.row_id
GROUP BY to_compute.evaluator_id, to_compute.trial, to_compute.key

-- statement: replace_rows
DELETE FROM to_compute WHERE evaluator_id IN (SELECT evaluator_id FROM reading);
INSERT INTO to_compute BY NAME FROM first_rows;
DROP TABLE first_rows

-- statement: wholes
-- What is counted of a plan: a conversation once, of whose turns some are planned.
CREATE OR REPLACE TEMP VIEW wholes AS
SELECT DISTINCT evaluator_id, conversation_id AS row_id, model_id, place, wave, state
FROM plan
JOIN (SELECT row_id, conversation_id, model_id FROM all_rows) USING (row_id)
JOIN waves USING (row_id)
WHERE state IN ('score', 'not_needed')

-- statement: populations
-- Of each question, all clusters that hold rows of its model for its evaluator, and the most rows of one.
SELECT number, count(*) AS clusters, max(n) AS largest, sum(n)::BIGINT AS rows
FROM (
    SELECT number, place, count(*) AS n
    FROM asked
    JOIN metrics USING (metric_id)
    JOIN wholes ON wholes.evaluator_id = metrics.evaluator_id AND wholes.model_id = asked.model_id
    GROUP BY number, place
)
GROUP BY number
ORDER BY number

-- statement: seen
-- What the waves up to $wave have shown of each question, cluster by cluster in their order. good is the sum of the rows'
-- values, each brought to 0 for the worst of the metric's range and 1 for the best, or 1 for a row that passes.
SELECT
    number,
    place,
    count_if(status = 'scored') AS scored,
    count_if(coalesce(status, 'unscored') = 'unscored') AS unscored,
    count_if(status = 'not_applicable') AS absent,
    coalesce(sum(
        CASE
            WHEN status <> 'scored' THEN 0
            WHEN passes THEN ((value >= above) = upper_is_good)::INTEGER
            WHEN upper_is_good THEN (value - low) / (high - low)
            ELSE (high - value) / (high - low)
        END
    ), 0)::DOUBLE AS good
FROM asked
JOIN metrics USING (metric_id)
JOIN targets USING (metric_id)
JOIN wholes
    ON wholes.evaluator_id = metrics.evaluator_id AND wholes.model_id = asked.model_id
    AND wholes.state = 'score' AND wave <= $wave
LEFT JOIN row_scores ON row_scores.metric_id = asked.metric_id AND row_scores.row_id = wholes.row_id
GROUP BY number, place
ORDER BY number, place

-- statement: judged_metrics
-- Metrics with a value per row of evaluators that ask a judge, with what the policy asks of them.
SELECT metrics.*, rules.* EXCLUDE (metric_id), evaluators.name AS evaluator_name
FROM metrics
JOIN rules USING (metric_id)
JOIN evaluators USING (evaluator_id)
WHERE lane = 'judge' AND evaluators.error IS NULL AND NOT dataset_level AND NOT pooled
ORDER BY metric_id

-- statement: planned_rows
-- Rows that an evaluator is to score, by model.
SELECT evaluator_id, model_id, count(*) AS rows, count(DISTINCT place) AS clusters
FROM wholes
WHERE state = 'score'
GROUP BY evaluator_id, model_id
ORDER BY evaluator_id, model_id

-- statement: leave_rest
UPDATE plan
SET state = 'not_needed'
WHERE
    state = 'score'
    AND evaluator_id IN (SELECT evaluator_id FROM evaluators WHERE lane = 'judge')
    AND row_id IN (SELECT row_id FROM waves WHERE wave > $wave)

-- statement: forget_judged
-- Leaves in to_compute what stays unjudged, for an estimate of what that saves.
DELETE FROM to_compute WHERE row_id NOT IN (SELECT row_id FROM waves WHERE wave > $wave)

-- statement: decided
-- What the last look decided of means, and of shares of rows that pass.
SELECT metric_id, model_id, question, decision
FROM stopping
WHERE wave = $wave AND question IN ('value', 'passes')

-- statement: give_interval
UPDATE aggregates
SET ci_low = $ci_low, ci_high = $ci_high, ci_method = $method, pass_low = $pass_low, pass_high = $pass_high,
    verdict = $verdict
WHERE metric_id = $metric_id AND model_id = $model_id

-- statement: seen_changes
-- What the waves up to $wave have shown of the differences between two runs, cluster by cluster in their order. good is
-- the sum of the differences, each brought from 0 for the worst possible to 1 for the best.
SELECT
    number,
    waves.place,
    count_if(state = 'pairs') AS scored,
    count_if(state = 'unscored') AS unscored,
    0 AS absent,
    coalesce(
        sum((sign * (candidate - baseline) + width) / (2 * width)) FILTER (state = 'pairs'), 0
    )::DOUBLE AS good
FROM asked
JOIN value_pairs ON value_pairs.place = asked.number
JOIN candidate_run.waves AS waves ON waves.row_id = candidate_row AND wave <= $wave
WHERE state IN ('pairs', 'unscored')
GROUP BY number, waves.place
ORDER BY number, waves.place

-- statement: largest_cluster
-- The most rows that the pairs of two models have in one cluster.
SELECT coalesce(max(n), 1)
FROM (
    SELECT count(*) AS n
    FROM row_pairs
    JOIN candidate_run.waves AS waves ON waves.row_id = candidate_row
    GROUP BY place
)

-- statement: forget_judged_aggregates
DELETE FROM aggregates
WHERE metric_id IN (SELECT metric_id FROM metrics JOIN evaluators USING (evaluator_id) WHERE lane = 'judge')
