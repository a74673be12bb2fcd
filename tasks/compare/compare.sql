-- Comparing two runs. Names in braces are filled in by tasks/compare.

-- statement: answers
-- How many cases both models have a row of, with how many the answer is the same, and how many are other cases now.
SELECT
    count(*) FILTER (NOT changed) AS rows,
    count(*) FILTER (NOT changed AND same_answer) AS same,
    count(*) FILTER (changed) AS changed
FROM row_pairs
WHERE baseline_row IS NOT NULL AND candidate_row IS NOT NULL

-- statement: cases
-- The cases of both datasets, matched by key and numbered.
CREATE OR REPLACE TEMP TABLE both_cases AS
SELECT
    (row_number() OVER () - 1)::UINTEGER AS case_no,
    case_key,
    baseline_cases.case_id AS baseline_case_id,
    candidate_cases.case_id AS candidate_case_id
FROM (SELECT case_id, case_key FROM baseline.cases) AS baseline_cases
FULL JOIN (SELECT case_id, case_key FROM candidate.cases) AS candidate_cases USING (case_key)

-- statement: copies
-- As aggregate/copies has them, of the cases of a side.
SELECT copy.case_no::BIGINT AS copy, original.case_no::BIGINT AS original
FROM (
    SELECT case_id, original_case_id FROM {side}.relationships UNION ALL FROM {side}.trials
) AS links
JOIN both_cases AS copy ON copy.{side}_case_id = links.case_id
JOIN both_cases AS original ON original.{side}_case_id = links.original_case_id
UNION ALL
SELECT case_no::BIGINT, original::BIGINT
FROM (
    SELECT case_no, min(case_no) OVER (PARTITION BY model_id, digests.actual_answer, digests.expected_answer) AS original
    FROM {side}.rows AS rows
    SEMI JOIN (
        WITH told AS (
            SELECT row_id, hash(actual_answer, expected_answer) AS alike
            FROM {side}.digests
            WHERE actual_answer IS NOT NULL AND expected_answer IS NOT NULL
        )
        FROM told WHERE alike IN (SELECT alike FROM told GROUP BY alike HAVING count(*) > 1)
    ) USING (row_id)
    JOIN {side}.digests AS digests USING (row_id)
    JOIN both_cases ON both_cases.{side}_case_id = rows.case_id
    WHERE error IS NULL AND len(rows.actual_answer) >= $least
)
WHERE case_no <> original

-- statement: counts
-- What became of the cases on each metric, and by how much the known values of unscored pairs fall short of the range's
-- ends.
SELECT
    place,
    state,
    baseline_reason,
    candidate_reason,
    count(*) AS n,
    count_if(same_answer) AS same_answers,
    sum(coalesce(candidate, worst) - coalesce(baseline, best)) AS if_worst,
    sum(coalesce(candidate, best) - coalesce(baseline, worst)) AS if_best
FROM value_pairs
JOIN compared USING (place)
GROUP BY place, state, baseline_reason, candidate_reason
ORDER BY ALL

-- statement: first_failing_turns
-- The first turn of a side's conversations that fails a metric, by the candidate's threshold.
SELECT conversation_id, min(turn) AS turn
FROM (
    SELECT conversation_id, turn, avg(value) AS value
    FROM {side}.turn_scores
    SEMI JOIN (
        SELECT metric_id
        FROM {side}.metrics
        JOIN {side}.evaluators USING (evaluator_id)
        WHERE evaluator = $evaluator AND metric = $metric
    ) USING (metric_id)
    GROUP BY conversation_id, turn
)
WHERE CASE WHEN $higher_is_better THEN value < $threshold ELSE value > $threshold END
GROUP BY conversation_id

-- statement: flip_lines
-- The rows of one metric that changed sides, with their numbers in either run for the table row_changes.
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
    $6::DOUBLE AS threshold,
    same_answer,
    baseline_row,
    candidate_row
FROM flipped
JOIN both_cases USING (case_no)
JOIN row_pairs USING (case_no)

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
    threshold DOUBLE,
    same_answer BOOLEAN,
    baseline_row UINTEGER,
    candidate_row UINTEGER
)

-- statement: metrics
-- What a side's run measured, each metric with the configuration of its evaluator, its role in the run's policy, and
-- whether it asks a judge.
SELECT * EXCLUDE (metrics.name, evaluators.name), metrics.name AS name, evaluators.name AS evaluator_name, role, judged
FROM {side}.metrics AS metrics
JOIN {side}.evaluators AS evaluators USING (evaluator_id)
JOIN (SELECT metric_id, role, judged FROM {side}.rules) USING (metric_id)
ORDER BY metric_id

-- statement: models
-- The models of a side that took part in its run, or all where nothing was scored.
SELECT model_id, model_key, name, version
FROM {side}.models
WHERE model_id IN (SELECT model_id FROM {side}.aggregates) OR NOT EXISTS (FROM {side}.aggregates)
ORDER BY model_id

-- statement: no_talks
CREATE VIEW {side}.talks AS
SELECT
    NULL::UINTEGER AS row_id, NULL::BLOB[] AS replies, NULL::BLOB AS tool_calls, NULL::BLOB AS history, NULL::BLOB AS expected_tool_calls,
    NULL::BLOB AS expected_outcome, NULL::BLOB AS scenario
WHERE false;

CREATE VIEW {side}.trials AS SELECT NULL::UINTEGER AS case_id, NULL::UINTEGER AS original_case_id WHERE false;

CREATE VIEW {side}.turn_scores AS
SELECT NULL::USMALLINT AS metric_id, NULL::UINTEGER AS conversation_id, NULL::USMALLINT AS turn, NULL::DOUBLE AS value
WHERE false

-- statement: pairs
-- The pairs that both sides have a value for, by metric, with the family of the case, -1 where it has no copies.
SELECT place, case_no, baseline, candidate, coalesce(family, -1) AS family
FROM value_pairs
LEFT JOIN families ON families.case_id = case_no
WHERE state = 'pairs'
ORDER BY place, case_no

-- statement: new_cases
-- Cases that only one of the datasets has.
SELECT
    count(*) FILTER (baseline_case_id IS NULL) AS new_cases,
    count(*) FILTER (candidate_case_id IS NULL) AS removed_cases
FROM both_cases

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

-- statement: row_changes
-- The flips as lines of the table row_changes, with the baseline's answers to those that a report shows first.
COPY (
    WITH lines AS (
        SELECT
            metric_id,
            candidate_row AS row_id,
            direction = 'passed_to_failed' AS broken,
            baseline,
            candidate,
            same_answer,
            baseline_row,
            candidate_model,
            weight,
            abs(candidate - baseline) / (high - low) AS distance
        FROM all_flips
        JOIN candidate.evaluators AS evaluators USING (evaluator)
        JOIN candidate.metrics AS metrics USING (evaluator_id, metric)
        JOIN (SELECT metric_id, weight FROM candidate.rules) USING (metric_id)
    ),
    first AS (
        SELECT broken, row_id
        FROM lines
        WHERE NOT same_answer
        GROUP BY candidate_model, broken, row_id
        QUALIFY row_number() OVER (
            PARTITION BY candidate_model, broken
            ORDER BY max(weight) DESC, count(*) DESC, max(distance) DESC, row_id
        ) <= {shown}
    )
    SELECT
        metric_id,
        row_id,
        broken,
        baseline,
        candidate,
        same_answer,
        CASE WHEN first.row_id IS NOT NULL THEN left(old.actual_answer, {most}) END AS baseline_answer
    FROM lines
    LEFT JOIN first USING (broken, row_id)
    LEFT JOIN baseline.rows AS old ON old.row_id = baseline_row
    ORDER BY metric_id, row_id
) TO {file} (FORMAT parquet)

-- statement: rows
-- The rows of one model of the baseline beside those of one model of the candidate. A case is another one if its texts
-- changed between the datasets ({case_fields}); answers are the same if all that the model gave is ({answer_fields}).
CREATE OR REPLACE TEMP TABLE row_pairs AS
WITH ours AS (
    SELECT case_no, rows.row_id, digests.* EXCLUDE (row_id), talks.* EXCLUDE (row_id)
    FROM baseline.rows AS rows
    JOIN baseline.digests AS digests USING (row_id)
    LEFT JOIN baseline.talks AS talks USING (row_id)
    JOIN both_cases ON both_cases.baseline_case_id = rows.case_id
    WHERE model_id = {baseline_model}
),
theirs AS (
    SELECT case_no, rows.row_id, digests.* EXCLUDE (row_id), talks.* EXCLUDE (row_id)
    FROM candidate.rows AS rows
    JOIN candidate.digests AS digests USING (row_id)
    LEFT JOIN candidate.talks AS talks USING (row_id)
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

-- statement: keep_slice
-- Leaves the row_pairs of which both rows are in a slice.
DELETE FROM row_pairs
WHERE case_no NOT IN (
    SELECT case_no
    FROM row_pairs
    JOIN baseline.slice_rows AS ours ON ours.row_id = baseline_row
    JOIN candidate.slice_rows AS theirs ON theirs.row_id = candidate_row
    WHERE ours.slice_column || '=' || ours.slice_value = $slice
        AND theirs.slice_column || '=' || theirs.slice_value = $slice
)

-- statement: slice_cases
-- Which cases of the row_pairs are in which slice: those of which both rows are.
CREATE OR REPLACE TEMP TABLE slice_cases AS
SELECT slice_column, slice_value, case_no
FROM row_pairs
JOIN baseline.slice_rows AS ours ON ours.row_id = baseline_row
JOIN candidate.slice_rows AS theirs USING (slice_column, slice_value)
WHERE theirs.row_id = candidate_row AND slice_column IN (SELECT unnest($columns))

-- statement: slice_columns
-- The columns that a side's run has slices by.
SELECT DISTINCT slice_column FROM {side}.slice_rows ORDER BY slice_column

-- statement: slice_sizes
SELECT slice_column, slice_value, count(*) AS n FROM slice_cases GROUP BY ALL ORDER BY ALL

-- statement: slice_values
-- The values of columns that are slices on both sides.
SELECT DISTINCT slice_column, slice_value
FROM baseline.slice_rows
SEMI JOIN candidate.slice_rows USING (slice_column, slice_value)
WHERE slice_column IN (SELECT unnest($columns))
ORDER BY ALL

-- statement: sliced_cases
-- The cases of the slices, in the order of slice_sizes.
SELECT case_no FROM slice_cases ORDER BY slice_column, slice_value, case_no

-- statement: talks
-- What cases and answers of conversations are told apart by, beside what digests has of all rows. Of an answer that is
-- all that the model said and called, and not what it was told: another system prompt makes no other answer.
CREATE VIEW {side}.talks AS
SELECT
    whole.row_id, replies, tool_calls_digest AS tool_calls, history_digest AS history,
    expected_tool_calls_digest AS expected_tool_calls, expected_outcome_digest AS expected_outcome,
    scenario_digest AS scenario
FROM read_parquet({turns}) AS whole
LEFT JOIN (
    SELECT conversation_id, list(actual_answer_digest ORDER BY turn) AS replies
    FROM read_parquet({turns})
    WHERE unit = 'turn'
    GROUP BY conversation_id
) AS said ON said.conversation_id = whole.row_id
WHERE unit <> 'turn';

CREATE VIEW {side}.trials AS
{trials};

CREATE VIEW {side}.turn_scores AS FROM {catalog}.turn_scores

-- statement: texts
-- The texts of cases that changed, cut to what a page shows, and the first failing turns of conversations.
SELECT
    case_no,
    both_cases.case_key AS "case",
    left(coalesce(theirs.question, ours.question), {most}) AS question,
    left(coalesce(theirs.expected_answers, ours.expected_answers)[1], {most}) AS expected,
    left(old.actual_answer, {most}) AS baseline_answer,
    left(new.actual_answer, {most}) AS candidate_answer,
    failed.turn AS baseline_turn,
    failing.turn AS candidate_turn
FROM wanted
JOIN both_cases USING (case_no)
JOIN row_pairs USING (case_no)
LEFT JOIN baseline.cases AS ours ON ours.case_id = baseline_case_id
LEFT JOIN candidate.cases AS theirs ON theirs.case_id = candidate_case_id
LEFT JOIN baseline.rows AS old ON old.row_id = baseline_row
LEFT JOIN candidate.rows AS new ON new.row_id = candidate_row
LEFT JOIN ({baseline}) AS failed ON failed.conversation_id = baseline_row
LEFT JOIN ({candidate}) AS failing ON failing.conversation_id = candidate_row

-- statement: same_answers
SELECT case_no, coalesce(same_answer, false) AS same_answer FROM row_pairs ORDER BY case_no

-- statement: trials
-- What each trial of one side said, and for how many rows one stands that was judged again only for the judge's noise.
WITH asked AS (
    SELECT metric_id, evaluator_id
    FROM {side}.metrics
    JOIN {side}.evaluators USING (evaluator_id)
    WHERE evaluator = $1 AND metric = $2
)
SELECT case_no, trial, value, sampled, coalesce(weight, 1)::DOUBLE AS weight
FROM (
    SELECT row_id, trial, value, false AS sampled FROM {side}.scores SEMI JOIN asked USING (metric_id) WHERE value IS NOT NULL
    UNION ALL
    SELECT row_id, trial, value, true FROM {side}.repeats SEMI JOIN asked USING (metric_id)
)
JOIN row_pairs ON {side}_row = row_id
LEFT JOIN (
    SELECT row_id, min(stands_for) AS weight
    FROM (
        SELECT unnest([original_row_id, perturbed_row_id]) AS row_id, stands_for
        FROM {side}.judged_again
        SEMI JOIN asked USING (evaluator_id)
    )
    GROUP BY row_id
) USING (row_id)

-- statement: values
-- The metrics in compared on both sides of each case: trials averaged within their row, and what became of the row.
CREATE OR REPLACE TEMP TABLE value_pairs AS
WITH ours AS (
    SELECT
        place,
        row_id,
        avg(value) AS value,
        count(*) FILTER (status = 'unscored') > 0 AS unscored,
        min(reason) FILTER (status = 'unscored') AS reason
    FROM baseline.scores
    JOIN compared ON metric_id = baseline_metric
    GROUP BY place, row_id
),
theirs AS (
    SELECT
        place,
        row_id,
        avg(value) AS value,
        count(*) FILTER (status = 'unscored') > 0 AS unscored,
        min(reason) FILTER (status = 'unscored') AS reason
    FROM candidate.scores
    JOIN compared ON metric_id = candidate_metric
    GROUP BY place, row_id
)
SELECT
    compared.place,
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
CROSS JOIN compared
LEFT JOIN ours ON ours.place = compared.place AND ours.row_id = baseline_row
LEFT JOIN theirs ON theirs.place = compared.place AND theirs.row_id = candidate_row
