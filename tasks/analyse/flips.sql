-- Flips: perturbed rows that stand on the other side of a threshold than their originals.

-- statement: flips
INSERT INTO flips
SELECT
    metric_id,
    model_id,
    original_case_id,
    perturbed_case_id,
    original_row_id,
    perturbed_row_id,
    original_value,
    perturbed_value,
    threshold,
    CASE WHEN (original_value >= above) = upper_is_good THEN 'passed_to_failed' ELSE 'failed_to_passed' END,
    nullif(perturbation, ''),
    CASE WHEN told THEN agreed END
FROM found
JOIN pairs USING (pair_id)
JOIN metrics USING (metric_id)
JOIN targets USING (metric_id)

-- statement: pairs
-- Each perturbed row with the row of its original, of the same model. A bucket is a model and a kind of perturbation;
-- where a dataset names more than 100 kinds they are no kinds, and are counted together.
CREATE OR REPLACE TEMP TABLE pairs AS
WITH links AS (
    SELECT
        case_id,
        original_case_id,
        string_agg(DISTINCT perturbation, ', ' ORDER BY perturbation) AS perturbation
    FROM relationships
    WHERE type = 'perturbation_source' AND case_id <> original_case_id
    GROUP BY case_id, original_case_id
),
named AS (
    SELECT *, CASE WHEN (SELECT count(DISTINCT perturbation) FROM links) <= 100 THEN perturbation ELSE '' END AS kind
    FROM links
)
SELECT
    (row_number() OVER () - 1)::UINTEGER AS pair_id,
    original.slot AS original_slot,
    perturbed.slot AS perturbed_slot,
    original.row_id AS original_row_id,
    perturbed.row_id AS perturbed_row_id,
    original.case_id AS original_case_id,
    perturbed.case_id AS perturbed_case_id,
    perturbed.model_id,
    perturbation,
    kind,
    (dense_rank() OVER (ORDER BY perturbed.model_id, kind) - 1)::UINTEGER AS bucket
FROM named
JOIN slots AS perturbed ON perturbed.case_id = named.case_id
JOIN slots AS original ON original.case_id = named.original_case_id AND original.model_id = perturbed.model_id

-- statement: same_answers
-- Of each pair, whether both rows have the same answer.
SELECT coalesce(originals.actual_answer = copies.actual_answer, false)::UTINYINT AS same_answer
FROM pairs
JOIN digests AS originals ON originals.row_id = original_row_id
JOIN digests AS copies ON copies.row_id = perturbed_row_id
ORDER BY pair_id

-- statement: buckets
SELECT DISTINCT bucket, model_id, coalesce(kind, '') AS kind FROM pairs ORDER BY bucket

-- statement: pair_originals
-- The original of each pair, and whether an evaluator turned them in its first trial, so that they were judged again.
SELECT original_case_id, coalesce(turned, false) AS turned, turned IS NOT NULL AS drawn
FROM pairs
LEFT JOIN (SELECT * FROM judged_again WHERE evaluator_id = ?) AS judged_again
    USING (original_row_id, perturbed_row_id)
ORDER BY pair_id

-- statement: pair_keys
-- Of each pair, whether an evaluator reads the same of both rows, so that they have one score.
SELECT originals.key = copies.key AS shared
FROM pairs
JOIN reads ON reads.evaluator_id = ?
JOIN keys AS originals ON originals.row_id = original_row_id AND originals.reads_id = reads.reads_id
JOIN keys AS copies ON copies.row_id = perturbed_row_id AND copies.reads_id = reads.reads_id
ORDER BY pair_id

-- statement: trials
-- What each trial of the rows that take part in a pair said, those included that only measure the judge's noise.
SELECT slot, trial, value
FROM (
    SELECT row_id, trial, value FROM scores WHERE metric_id = $1 AND value IS NOT NULL
    UNION ALL
    SELECT row_id, trial, value FROM repeats WHERE metric_id = $1
)
JOIN slots USING (row_id)

-- statement: third_trials
-- What each trial said of the rows between the pairs that were judged again.
SELECT pairs.pair_id, held.trial, held.value
FROM third_rows
JOIN pairs USING (original_row_id, perturbed_row_id)
JOIN (
    SELECT key, trial, {column} AS value
    FROM read_parquet({segments})
    WHERE trial < {trials} AND {column} IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY key, trial ORDER BY filename) = 1
) AS held USING (key)
WHERE third_rows.evaluator_id = {evaluator_id}

-- statement: third_keys
-- Whether the row between a pair has the score of its original, or of its copy.
SELECT pairs.pair_id, third_rows.key = originals.key AS as_original, third_rows.key = copies.key AS as_copy
FROM third_rows
JOIN pairs USING (original_row_id, perturbed_row_id)
JOIN reads USING (evaluator_id)
JOIN keys AS originals ON originals.row_id = original_row_id AND originals.reads_id = reads.reads_id
JOIN keys AS copies ON copies.row_id = perturbed_row_id AND copies.reads_id = reads.reads_id
WHERE third_rows.evaluator_id = ?

-- statement: has_trials
SELECT EXISTS (FROM scores WHERE trial > 0) OR EXISTS (FROM repeats)

-- statement: metrics
SELECT targets.*, metrics.evaluator_id, metrics.metric, coalesce(rules.judged, false) AS judged
FROM targets
JOIN metrics USING (metric_id)
LEFT JOIN rules USING (metric_id)
WHERE compared AND above IS NOT NULL
ORDER BY metric_id

-- statement: rates
-- Pairs and flips per metric, model and perturbation, and with perturbation '' for all of a model's together.
-- Where the dataset does not say what was done to a case, there is only the line for all together.
SELECT
    metric_id,
    model_id,
    coalesce(kind, '') AS perturbation,
    sum(n_pairs)::BIGINT AS n_pairs,
    sum(n_passed_to_failed)::BIGINT AS n_passed_to_failed,
    sum(n_failed_to_passed)::BIGINT AS n_failed_to_passed,
    sum(n_same_answer)::BIGINT AS n_same_answer,
    sum(n_flips_same_answer)::BIGINT AS n_flips_same_answer
FROM counted
JOIN (SELECT DISTINCT bucket, model_id, kind FROM pairs) USING (bucket)
GROUP BY GROUPING SETS ((metric_id, model_id, kind), (metric_id, model_id))
HAVING sum(n_pairs) > 0 AND kind IS DISTINCT FROM ''
ORDER BY metric_id, model_id, perturbation

-- statement: slots
-- The rows that take part in a pair, numbered without gaps.
CREATE OR REPLACE TEMP TABLE slots AS
SELECT row_id, case_id, model_id, (row_number() OVER () - 1)::UINTEGER AS slot
FROM rows
WHERE case_id IN (
    SELECT unnest([case_id, original_case_id])
    FROM relationships
    WHERE type = 'perturbation_source' AND case_id <> original_case_id
)

-- statement: values
-- The values of the rows that take part in a pair, by their place in an array of a line of slots per metric.
SELECT ((metric_id - $first) * $slots::UINTEGER + slot)::UINTEGER AS cell, value
FROM row_scores
JOIN slots USING (row_id)
WHERE value IS NOT NULL AND metric_id BETWEEN $first AND $last
