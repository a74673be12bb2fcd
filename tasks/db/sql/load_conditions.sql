-- Every condition once, with its first mention.
SELECT arg_min(record, seq) AS record, arg_min(part, seq) AS part, arg_min(case_key, seq) AS case_key, condition
FROM staged_cases
WHERE condition IS NOT NULL
GROUP BY condition
ORDER BY min(seq)
