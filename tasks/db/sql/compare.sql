-- Comparing two runs. Names in braces are filled in by tasks/compare.

-- statement: cases
-- The cases of both datasets, matched by key and numbered; and who is a perturbed copy of whom, in either of them.
CREATE OR REPLACE TEMP TABLE both_cases AS
SELECT
    (row_number() OVER () - 1)::UINTEGER AS case_no,
    case_key,
    baseline_cases.case_id AS baseline_case_id,
    candidate_cases.case_id AS candidate_case_id
FROM (SELECT case_id, case_key FROM baseline.cases) AS baseline_cases
FULL JOIN (SELECT case_id, case_key FROM candidate.cases) AS candidate_cases USING (case_key);

CREATE OR REPLACE TEMP VIEW relationships AS
SELECT copy.case_no AS case_id, original.case_no AS original_case_id
FROM baseline.relationships AS links
JOIN both_cases AS copy ON copy.baseline_case_id = links.case_id
JOIN both_cases AS original ON original.baseline_case_id = links.original_case_id
UNION ALL
SELECT copy.case_no, original.case_no
FROM candidate.relationships AS links
JOIN both_cases AS copy ON copy.candidate_case_id = links.case_id
JOIN both_cases AS original ON original.candidate_case_id = links.original_case_id;

-- statement: counts
-- What became of the cases, and by how much the known values of unscored pairs fall short of the range's ends.
SELECT
    state,
    baseline_reason,
    candidate_reason,
    count(*) AS n,
    count_if(same_answer) AS same_answers,
    sum(coalesce(candidate, $worst) - coalesce(baseline, $best)) AS if_worst,
    sum(coalesce(candidate, $best) - coalesce(baseline, $worst)) AS if_best
FROM value_pairs
GROUP BY state, baseline_reason, candidate_reason
ORDER BY ALL

-- statement: flip_lines
INSERT INTO all_flips BY NAME
SELECT
    $1 AS evaluator,
    $2 AS metric,
    $3 AS baseline_model,
    $4 AS candidate_model,
    case_key AS "case",
    $5 AS direction,
    baseline,
    candidate,
    $6::DOUBLE AS threshold
FROM flipped
JOIN both_cases USING (case_no)

-- statement: flips
-- Every case that changed sides of a threshold, for flips.csv.
CREATE OR REPLACE TEMP TABLE all_flips (
    evaluator VARCHAR,
    metric VARCHAR,
    baseline_model VARCHAR,
    candidate_model VARCHAR,
    "case" VARCHAR,
    direction VARCHAR,
    baseline DOUBLE,
    candidate DOUBLE,
    threshold DOUBLE
)

-- statement: metrics
-- What a side's run measured, each metric with the configuration of its evaluator.
SELECT * EXCLUDE (metrics.name, evaluators.name), metrics.name AS name, evaluators.name AS evaluator_name
FROM {side}.metrics AS metrics
JOIN {side}.evaluators AS evaluators USING (evaluator_id)
ORDER BY metric_id

-- statement: models
-- The models of a side that took part in its run, or all where nothing was scored.
SELECT model_id, model_key, name, version
FROM {side}.models
WHERE model_id IN (SELECT model_id FROM {side}.aggregates) OR NOT EXISTS (FROM {side}.aggregates)
ORDER BY model_id

-- statement: pairs
-- The pairs that both sides have a value for, with the family of the case, -1 where it has no copies.
SELECT case_no, baseline, candidate, coalesce(family, -1) AS family
FROM value_pairs
LEFT JOIN families ON families.case_id = case_no
WHERE state = 'pairs'
ORDER BY case_no

-- statement: payloads
-- What a metric over whole datasets is computed from: the payloads of both sides of a case, and how many cases have
-- these two. Of a row scored in several trials the first that has a payload counts, so that pairs stay pairs.
WITH ours AS (
    SELECT row_id, arg_min(payload, trial) AS payload
    FROM baseline.evidence
    WHERE evaluator_id = {baseline_evaluator} AND payload IS NOT NULL
    GROUP BY row_id
),
theirs AS (
    SELECT row_id, arg_min(payload, trial) AS payload
    FROM candidate.evidence
    WHERE evaluator_id = {candidate_evaluator} AND payload IS NOT NULL
    GROUP BY row_id
)
SELECT ours.payload AS baseline, theirs.payload AS candidate, {unit} AS unit, count(*) AS n
FROM row_pairs
JOIN ours ON ours.row_id = baseline_row
JOIN theirs ON theirs.row_id = candidate_row
LEFT JOIN families ON families.case_id = case_no
WHERE NOT changed
GROUP BY ALL
ORDER BY ALL

-- statement: rows
-- The rows of one model of the baseline beside those of one model of the candidate. A case is another one if its texts
-- changed between the datasets ({case_fields}); answers are the same if all that the model gave is ({answer_fields}).
CREATE OR REPLACE TEMP TABLE row_pairs AS
WITH ours AS (
    SELECT case_no, rows.row_id, digests.* EXCLUDE (row_id)
    FROM baseline.rows AS rows
    JOIN baseline.digests AS digests USING (row_id)
    JOIN both_cases ON both_cases.baseline_case_id = rows.case_id
    WHERE model_id = {baseline_model}
),
theirs AS (
    SELECT case_no, rows.row_id, digests.* EXCLUDE (row_id)
    FROM candidate.rows AS rows
    JOIN candidate.digests AS digests USING (row_id)
    JOIN both_cases ON both_cases.candidate_case_id = rows.case_id
    WHERE model_id = {candidate_model}
)
SELECT
    case_no,
    ours.row_id AS baseline_row,
    theirs.row_id AS candidate_row,
    {changed} AS changed,
    {same} AS same_answer
FROM ours
FULL JOIN theirs USING (case_no)

-- statement: texts
-- The texts of cases that changed, cut to what a page shows.
SELECT
    case_no,
    both_cases.case_key AS "case",
    left(coalesce(theirs.question, ours.question), {most}) AS question,
    left(coalesce(theirs.expected_answers, ours.expected_answers)[1], {most}) AS expected,
    left(old.actual_answer, {most}) AS baseline_answer,
    left(new.actual_answer, {most}) AS candidate_answer
FROM wanted
JOIN both_cases USING (case_no)
JOIN row_pairs USING (case_no)
LEFT JOIN baseline.cases AS ours ON ours.case_id = baseline_case_id
LEFT JOIN candidate.cases AS theirs ON theirs.case_id = candidate_case_id
LEFT JOIN baseline.rows AS old ON old.row_id = baseline_row
LEFT JOIN candidate.rows AS new ON new.row_id = candidate_row

-- statement: values
-- One metric on both sides of each case: trials averaged within their row, and what became of the row.
CREATE OR REPLACE TEMP TABLE value_pairs AS
WITH ours AS (
    SELECT
        row_id,
        avg(value) AS value,
        count(*) FILTER (status = 'unscored') > 0 AS unscored,
        min(reason) FILTER (status = 'unscored') AS reason
    FROM baseline.scores
    WHERE metric_id = {baseline_metric}
    GROUP BY row_id
),
theirs AS (
    SELECT
        row_id,
        avg(value) AS value,
        count(*) FILTER (status = 'unscored') > 0 AS unscored,
        min(reason) FILTER (status = 'unscored') AS reason
    FROM candidate.scores
    WHERE metric_id = {candidate_metric}
    GROUP BY row_id
)
SELECT
    case_no,
    baseline_row,
    candidate_row,
    same_answer,
    ours.value AS baseline,
    theirs.value AS candidate,
    CASE
        WHEN candidate_row IS NULL THEN 'only_baseline'
        WHEN baseline_row IS NULL THEN 'only_candidate'
        WHEN changed THEN 'changed'
        WHEN ours.value IS NOT NULL AND theirs.value IS NOT NULL THEN 'pairs'
        WHEN coalesce(ours.unscored, false) AND (theirs.value IS NOT NULL OR coalesce(theirs.unscored, false))
            OR coalesce(theirs.unscored, false) AND ours.value IS NOT NULL THEN 'unscored'
        ELSE 'not_applicable'
    END AS state,
    CASE WHEN ours.value IS NULL THEN ours.reason END AS baseline_reason,
    CASE WHEN theirs.value IS NULL THEN theirs.reason END AS candidate_reason
FROM row_pairs
LEFT JOIN ours ON ours.row_id = baseline_row
LEFT JOIN theirs ON theirs.row_id = candidate_row
