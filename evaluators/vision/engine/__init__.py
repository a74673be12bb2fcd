"""Geometry, matching and curves that the vision evaluators share.

Detection, in the order of its work: ``objects`` turns annotations into arrays (``planar`` and ``mask_runs`` are their
geometries), ``overlap`` finds pairs and their IoU, ``image_batch`` gives each prediction of a batch its ground truth,
``payload`` writes down an image, ``ranking`` measures precision and recall, and ``image_set`` gathers the images of a
model and takes the means. ``detection_errors``, ``detection_records`` and ``detection_details`` show what went wrong.

Segmentation: ``regions`` compares the regions of an image, ``segmentation`` sums their areas over a dataset, and
``segmentation_details`` shows the result by label.
"""
