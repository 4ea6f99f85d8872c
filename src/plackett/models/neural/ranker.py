"""A neural net for any objective."""

from __future__ import annotations

from dataclasses import dataclass

from plackett.models.neural.net import Net


@dataclass
class NeuralRanker(Net):
    """A neural net that scores documents, trained on whole lists.

    Parameters
    ----------
    objective
        Name or object.
    layers
        Widths of the hidden layers; () is a linear model.
    activation
        relu, elu, gelu, tanh, sigmoid or silu. The last layer is linear.
    batch_norm
        Normalise the input and between layers over each batch, with this momentum m:
        running = m * running + (1 - m) * batch (TensorFlow's convention; PyTorch's is 1 - m).
    dropout
        Share of the units that is dropped after each layer while training.
    attention, heads
        Number of blocks of self-attention over the documents of a list, on top of the layers, and
        the number of heads of each; 0: documents are scored one by one.
    group_size
        Documents that the net sees and scores together; 1: one by one.
    recurrent, pooling, score_from
        A cell (rnn, lstm, gru) that goes down the levels of labels while training (urBoost);
        how the states of a level become one (max, mean); whether scores come from state and
        document ("both") or from the state alone ("state").
    module
        A ``torch.nn.Module`` of your own that maps documents x features to scores, or a function
        of the number of features that makes one; takes the place of all of the above.
        It is copied, not changed. A saved model holds its weights, not its code:
        ``plackett.load(path, module=...)`` takes it again.
    optimiser, learning_rate, weight_decay
        adam, adamw or adagrad.
    schedule
        The learning rate over the epochs: constant, linear or cosine (both down to zero).
    clip
        Norm that the gradient of all weights together is cut to.
    epochs, patience
        Passes over the lists at most; with validation data, stop after so many without a better
        metric, and take the weights of the best.
    batch_lists, batch_documents
        Lists in a batch, and documents in a batch, at most; a longer list is a batch of its own.
    reduction
        Whether a step goes down the mean or the sum of the losses of its lists.
    seed
        For first weights, order of lists and dropout. The same seed gives the same weights.
    device
        "cpu", "cuda", "cuda:1" or a ``torch.device``; "auto": a GPU if there is one. "mps" and
        "xpu" only where asked for.
    threads
        Number of threads; None: all.
    transforms
        Applied to features first.

    Notes
    -----
    Lists of one level of labels have no gradient and are left out of training.
    """

    @property
    def _learners(self) -> int:
        return 1

    @property
    def _shrinkage(self) -> float:
        return 1.0
