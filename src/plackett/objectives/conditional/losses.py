"""The losses of the conditional models, as compiled code knows them."""

MLE_LOSS = 0.0
EXP_GAIN = 1.0
CONVEX_LOSS = 2.0
L2_LOSS = 3.0
L3_LOSS = 4.0
