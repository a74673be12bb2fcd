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
