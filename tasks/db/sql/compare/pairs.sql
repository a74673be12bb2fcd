-- The pairs that both sides have a value for, with the family of the case, -1 where it has no copies.
SELECT case_no, baseline, candidate, coalesce(family, -1) AS family
FROM value_pairs
LEFT JOIN families ON families.case_id = case_no
WHERE state = 'pairs'
ORDER BY case_no
