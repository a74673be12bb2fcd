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
