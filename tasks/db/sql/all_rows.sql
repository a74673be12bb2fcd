-- All rows of a small dataset with all their fields, in row order.
SELECT cases.case_key, models.model_key, {columns}
FROM rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY rows.row_id
