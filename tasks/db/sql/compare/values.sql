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
