-- The annotations of one model's rows of some cases, and what says how large the items are: the case, or any of its rows.
SELECT
    case_key,
    any_value(expected_annotations) AS expected_annotations,
    any_value(predicted_annotations) FILTER (model_id = $model_id) AS predicted_annotations,
    any_value(cases.metadata) AS case_metadata,
    arg_min(rows.metadata, row_id) FILTER (contains(rows.metadata, '"width"')) AS row_metadata
FROM rows
JOIN cases USING (case_id)
WHERE case_key IN (SELECT unnest($cases))
GROUP BY case_key
