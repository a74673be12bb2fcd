-- Every image with its ground truth (file -1) and what each model found, as JSON in the one form of annotations.
SELECT
    images.record,
    images.image,
    images.metadata,
    files.file,
    '[' || coalesce(found.annotations, '') || ']' AS annotations
FROM coco_images AS images
CROSS JOIN (SELECT range AS file FROM range(-1, $models)) AS files
LEFT JOIN (
    SELECT
        image, file,
        string_agg('{"labels":[' || label || score || '}]' || rest || '}', ',' ORDER BY coco_found.record) AS annotations
    FROM coco_found
    JOIN coco_categories USING (category)
    GROUP BY image, file
) AS found ON found.image = images.image AND found.file = files.file
ORDER BY images.record, files.file
