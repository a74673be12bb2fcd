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
