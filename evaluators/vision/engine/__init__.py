"""Geometry, matching and curves that the vision evaluators share.

Detection, in the order of its work: ``objects`` turns annotations into arrays (``planar`` and ``mask_runs`` are their
geometries), ``overlap`` finds pairs and their IoU, ``assignment`` gives each prediction its ground truth,
``image_batch`` does both for a batch, ``payload`` writes down an image, ``image_set`` gathers the images of a model,
``ranking`` measures precision and recall, ``detection_metrics`` takes their means. ``detection_errors``,
``detection_records`` and ``detection_details`` (with ``confusion``) show what went wrong.

Segmentation: ``regions`` compares the regions of an image, ``segmentation`` sums their areas over a dataset, and
``segmentation_details`` shows the result by label.
"""
