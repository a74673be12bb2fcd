-- The values of the rows that take part in a pair, by their place in an array of a line of slots per metric.
SELECT ((metric_id - $first) * $slots::UINTEGER + slot)::UINTEGER AS cell, value
FROM row_scores
JOIN slots USING (row_id)
WHERE value IS NOT NULL AND metric_id BETWEEN $first AND $last
