-- What a dataset has: texts, and annotations by what they are drawn as. A dataset without annotations counts as one of
-- texts. Loading writes annotations in one form, so that looking for its members is enough: labels come first, and where
-- nothing but labels stands in an annotation, it is of the whole item.
SELECT
    coalesce(bool_or(
        cases.question IS NOT NULL OR rows.actual_answer IS NOT NULL
        OR (cases.expected_annotations IS NULL AND rows.predicted_annotations IS NULL)
    ), true) AS texts,
    coalesce(bool_or(contains(cases.expected_annotations, '}]}')), false) AS whole,
    coalesce(bool_or(contains(cases.expected_annotations, '"box":')), false) AS box,
    coalesce(bool_or(contains(cases.expected_annotations, '"polygon":')), false) AS polygon,
    coalesce(bool_or(contains(cases.expected_annotations, '"raster":')), false) AS raster,
    -- an annotation that is no single object says so
    coalesce(bool_or(
        len(regexp_extract_all(cases.expected_annotations, '"labels":'))
        > len(regexp_extract_all(cases.expected_annotations, '"is_instance":false'))
    ), false) AS instances
FROM rows
JOIN cases USING (case_id)
