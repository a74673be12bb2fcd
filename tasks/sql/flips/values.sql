SELECT metric_id, slot, value
FROM row_scores
JOIN slots USING (row_id)
WHERE value IS NOT NULL AND metric_id BETWEEN ? AND ?
