-- Aggregating the scores of a run. Names in braces are filled in by tasks/analyse.

-- statement: copies
-- Cases and what they are copies of: by their perturbation, as trials of a conversation, and where a model gave the same
-- long answer to cases of which the same is expected; short ones, such as labels, are alike by chance. Hashes say which
-- few rows of many may be alike; only these are sorted and their texts read.
WITH told AS (
    SELECT row_id, hash(actual_answer, expected_answer) AS alike
    FROM digests
    WHERE actual_answer IS NOT NULL AND expected_answer IS NOT NULL
)
SELECT case_id::BIGINT AS copy, original_case_id::BIGINT AS original
FROM relationships
UNION ALL
SELECT case_id::BIGINT, original_case_id::BIGINT
FROM trials
UNION ALL
SELECT case_id::BIGINT, original::BIGINT
FROM (
    SELECT case_id, min(case_id) OVER (PARTITION BY model_id, answer, expected_answer) AS original
    FROM (
        SELECT row_id, case_id, model_id
        FROM rows
        SEMI JOIN (FROM told WHERE alike IN (SELECT alike FROM told GROUP BY alike HAVING count(*) > 1)) USING (row_id)
        WHERE error IS NULL AND len(actual_answer) >= $least
    )
    JOIN (SELECT row_id, actual_answer AS answer, expected_answer FROM digests) USING (row_id)
)
WHERE case_id <> original

-- statement: cluster_rows
-- The rows of cases that have perturbed copies, numbered so that a number stands for one original and one model. weight
-- is the number of clusters that each one stands for.
CREATE OR REPLACE TEMP TABLE cluster_rows AS
SELECT row_id, (family * (SELECT max(model_id)::BIGINT + 1 FROM rows) + model_id)::UBIGINT AS cluster, model_id, weight
FROM rows
JOIN families USING (case_id)

-- statement: clusters
-- How far the rows of one original and its copies deviate together from their model's mean. The influence of a cluster
-- is the sum of its deviations divided by the share of the rows that are not in it; from its powers those of the rows,
-- each taken for a cluster of its own, are subtracted.
WITH members AS MATERIALIZED ( -- few rows of many, found before anything else is joined to them
    SELECT metric_id, model_id, cluster, weight, value
    FROM row_scores
    JOIN cluster_rows USING (row_id)
    WHERE value IS NOT NULL
)
SELECT
    metric_id,
    model_id,
    sum(weight * (n - 1)) AS joined,
    sum(weight * (n * n - n)) AS sizes,
    coalesce(sum(weight * (pow(influence, 2) - squares)), 0) AS covariance,
    coalesce(sum(weight * (pow(influence, 3) - cubes)), 0) AS coskewness,
    coalesce(sum(weight * within), 0) AS within
FROM (
    SELECT
        metric_id,
        model_id,
        any_value(weight) AS weight,
        count(*)::DOUBLE AS n,
        CASE WHEN count(*) < any_value(n_scored)
            THEN sum(value - mean) * any_value(n_scored) / (any_value(n_scored) - count(*)) ELSE 0 END AS influence,
        sum(pow((value - mean) * n_scored / nullif(n_scored - 1, 0), 2)) AS squares,
        sum(pow((value - mean) * n_scored / nullif(n_scored - 1, 0), 3)) AS cubes,
        var_pop(value) * count(*) AS within
    FROM members
    JOIN sums USING (metric_id, model_id)
    WHERE isfinite(mean)
    GROUP BY metric_id, model_id, cluster
)
GROUP BY metric_id, model_id

-- statement: deviations
-- Squared deviations by Welford's method, and cubed ones from the mean itself.
SELECT
    metric_id,
    model_id,
    var_pop(value) * count(value) AS squares,
    sum(pow(value - mean, 3)) AS cubes
FROM row_scores
JOIN rows USING (row_id)
JOIN sums USING (metric_id, model_id)
WHERE metric_id IN ({metrics}) AND isfinite(mean)
GROUP BY metric_id, model_id

-- statement: example_rows
-- The annotations of one model's rows of some cases, and what says how large the items are: the case, or any of its rows.
SELECT
    case_key,
    any_value(expected_annotations) AS expected_annotations,
    any_value(predicted_annotations) FILTER (model_id = $model_id) AS predicted_annotations,
    any_value(cases.metadata) AS case_metadata,
    arg_min(rows.metadata, row_id) FILTER (contains(rows.metadata, '"width"')) AS row_metadata
FROM rows
JOIN cases USING (case_id)
WHERE case_key IN (SELECT unnest($cases))
GROUP BY case_key

-- statement: payload_groups
-- The evaluators and models that have payloads for a metric that is no mean of rows.
SELECT DISTINCT evaluator_id, model_id
FROM evidence
JOIN rows USING (row_id)
WHERE payload IS NOT NULL
  AND evaluator_id IN (SELECT evaluator_id FROM metrics WHERE dataset_level OR pooled)
ORDER BY evaluator_id, model_id

-- statement: payloads
-- What the dataset-level metrics of one evaluator and model are computed from: each distinct payload, how many rows have
-- it, and a case that does. A row that was scored in several trials counts once.
SELECT payload, sum(weight) AS weight, arg_min(case_key, row_id) AS case_key
FROM (
    SELECT row_id, case_id, payload, 1.0 / count(*) OVER (PARTITION BY row_id) AS weight
    FROM evidence
    JOIN rows USING (row_id)
    WHERE payload IS NOT NULL AND evaluator_id = $evaluator_id AND model_id = $model_id
)
JOIN cases USING (case_id)
GROUP BY payload
ORDER BY payload

-- statement: pair_payloads
-- Outcomes of the comparisons of each row's answer with those of other models; the trials of a row share its weight.
SELECT model_key, case_id, payload, 1.0 / count(*) OVER (PARTITION BY row_id) AS weight
FROM evidence
JOIN rows USING (row_id)
JOIN models USING (model_id)
WHERE payload IS NOT NULL AND evaluator_id = ?
ORDER BY row_id, trial

-- statement: reasons
-- Why rows have no value.
SELECT metric_id, model_id, coalesce(reason, 'unknown') AS reason, count(*) AS n
FROM row_scores
JOIN rows USING (row_id)
WHERE status = 'unscored'
GROUP BY metric_id, model_id, reason
ORDER BY metric_id, model_id, reason

-- statement: sums
-- All that means, extremes, coverage and pass shares need, in one pass over the scores.
CREATE OR REPLACE TEMP TABLE sums AS
WITH by_status AS (
    SELECT
        metric_id,
        model_id,
        status,
        count(*) AS n,
        sum(value) AS total,
        sum(value * value) AS squares,
        sum(value * value * value) AS cubes,
        min(value) AS minimum,
        max(value) AS maximum,
        count_if(value >= above) AS n_above
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN targets USING (metric_id)
    GROUP BY metric_id, model_id, status
),
summed AS (
    SELECT
        metric_id,
        model_id,
        coalesce(sum(n) FILTER (status = 'scored'), 0)::BIGINT AS n_scored,
        coalesce(sum(n) FILTER (status = 'unscored'), 0)::BIGINT AS n_unscored,
        coalesce(sum(n) FILTER (status = 'not_applicable'), 0)::BIGINT AS n_not_applicable,
        sum(total) AS total,
        sum(squares) AS squares,
        sum(cubes) AS cubes,
        min(minimum) AS minimum,
        max(maximum) AS maximum,
        sum(n_above)::BIGINT AS n_above
    FROM by_status
    GROUP BY metric_id, model_id
)
SELECT
    metric_id,
    model_id,
    n_scored,
    n_unscored,
    n_not_applicable,
    CASE WHEN minimum = maximum THEN minimum WHEN n_scored > 0 THEN total / n_scored END AS mean,
    CASE WHEN minimum = maximum THEN 0 WHEN n_scored > 0 THEN squares - total * total / n_scored END AS squares,
    CASE WHEN minimum = maximum THEN 0 WHEN n_scored > 0
        THEN cubes - 3 * total / n_scored * squares + 2 * pow(total, 3) / pow(n_scored, 2) END AS cubes,
    minimum,
    maximum,
    CASE WHEN upper_is_good THEN n_above ELSE n_scored - n_above END AS n_pass
FROM summed
JOIN targets USING (metric_id)

-- statement: trial_spread
-- How much the trials of a row differ. A line per metric and model of which some row was scored more than once.
-- within_std pools the rows' variances, each with its number of trials less one. The means of the trials are taken over
-- the rows that every trial scored, so that they do not differ by which rows they could score; they are not told where
-- only some rows were judged again. Rows that were since they turned count by the reciprocal of their chance.
INSERT INTO trial_spread
WITH every_trial AS (
    SELECT metric_id, row_id, trial, value, false AS sampled FROM scores WHERE status = 'scored'
    UNION ALL
    SELECT metric_id, row_id, trial, value, true FROM repeats
),
asked AS (
    SELECT metric_id, max(trial) + 1 AS n_trials, bool_or(sampled) AS sampled
    FROM (SELECT metric_id, trial, false AS sampled FROM scores UNION ALL SELECT metric_id, trial, true FROM repeats)
    GROUP BY metric_id
    HAVING max(trial) > 0
),
chances AS (
    SELECT evaluator_id, row_id, min(stands_for) AS weight
    FROM (SELECT evaluator_id, unnest([original_row_id, perturbed_row_id]) AS row_id, stands_for FROM judged_again)
    GROUP BY ALL
),
repeated AS (
    SELECT
        metric_id,
        model_id,
        row_id,
        count(*) AS n,
        coalesce(any_value(weight), 1) AS weight,
        min(value) AS low,
        max(value) AS high,
        var_samp(value) FILTER (isfinite(value)) AS variance,
        CASE WHEN any_value(above) IS NOT NULL THEN count_if(value >= above) BETWEEN 1 AND count(*) - 1 END AS crosses
    FROM every_trial
    JOIN asked USING (metric_id)
    JOIN targets USING (metric_id)
    JOIN metrics USING (metric_id)
    JOIN rows USING (row_id)
    LEFT JOIN chances USING (evaluator_id, row_id)
    GROUP BY metric_id, model_id, row_id
    HAVING count(*) > 1
),
by_row AS (
    SELECT
        metric_id,
        model_id,
        count(*) AS n_rows,
        count_if(low < high) AS n_differ,
        sum(weight) FILTER (low < high) AS differ,
        CASE WHEN count(crosses) > 0 THEN count_if(crosses) END AS n_cross,
        CASE WHEN count(crosses) > 0 THEN coalesce(sum(weight) FILTER (crosses), 0) END AS cross_weight,
        sum(weight) AS weight,
        sqrt(
            sum(weight * (n - 1) * variance) FILTER (isfinite(low) AND isfinite(high))
            / sum(weight * (n - 1)) FILTER (isfinite(low) AND isfinite(high))
        ) AS within_std
    FROM repeated
    GROUP BY metric_id, model_id
),
by_trial AS (
    SELECT metric_id, repeated.model_id, trial, avg(value) AS mean
    FROM every_trial
    JOIN repeated USING (metric_id, row_id)
    JOIN asked USING (metric_id)
    WHERE n = n_trials AND NOT asked.sampled AND isfinite(low) AND isfinite(high)
    GROUP BY metric_id, repeated.model_id, trial
),
means AS (
    SELECT metric_id, model_id, min(mean) AS lowest_mean, max(mean) AS highest_mean, stddev_samp(mean) AS means_std
    FROM by_trial
    GROUP BY metric_id, model_id
)
SELECT
    metric_id, model_id, n_trials, n_rows, n_differ, coalesce(differ, 0) / weight, n_cross, cross_weight / weight,
    within_std, lowest_mean, highest_mean, means_std, between_std,
    between_std ** 2 / nullif(between_std ** 2 + within_std ** 2, 0), rerun_std
FROM by_row
JOIN asked USING (metric_id)
LEFT JOIN means USING (metric_id, model_id)
LEFT JOIN (
    SELECT
        metric_id,
        model_id,
        sqrt(greatest(0, std ** 2 - within_std ** 2 / CASE WHEN sampled THEN 1 ELSE n_trials END)) AS between_std,
        CASE WHEN n_scored > 0 AND is_mean
            THEN sqrt(2 * within_std ** 2 / (n_scored * CASE WHEN sampled THEN 1 ELSE n_trials END)) END AS rerun_std
    FROM by_row
    JOIN asked USING (metric_id)
    JOIN (SELECT metric_id, model_id, std, n_scored FROM aggregates) USING (metric_id, model_id)
    JOIN (SELECT metric_id, NOT (dataset_level OR pooled) AS is_mean FROM metrics) USING (metric_id)
) AS components USING (metric_id, model_id)
ORDER BY metric_id, model_id
