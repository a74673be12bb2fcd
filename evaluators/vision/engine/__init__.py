"""Geometry, matching and curves that the vision evaluators share.

Detection, in the order of its work: ``objects`` turns annotations into arrays (``geometry`` has their forms) and finds
the pairs that overlap, ``matching`` gives each prediction of a batch its ground truth and writes down the images,
``ranking`` gathers the images of a model, measures precision and recall and takes the means, and
``detection_details`` shows what went wrong. ``segmentation`` does all of this for the regions of images.
"""
