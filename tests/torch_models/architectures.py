"""Architectures in small, with the symmetries that each must have, counted by hand.

A list of units is one number a family. "Conv scales" are sizes that a normalisation removes, one
for each channel (BatchNorm), group or layer; "gains" are those of a normalisation against what
reads it.
"""

import dataclasses
import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from torch_models import architectures_attention as attention
from torch_models.test_symmetries import L, Net, free
from torch_models.test_trained_models import Adapted, Clip, Experts, Recurrent, ReZero

IMAGE, WORDS = (4, 1, 8, 8), "words"


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model to be looked at.

    Attributes:
        make: the model.
        shape: of its input, of several inputs, or WORDS.
        units: of its families, in any order.
        because: how they are counted.
        named: words that its notes must have, of what is not moved or not understood.
        alone: families of which one side alone changes nothing, either.
        in_all: only the sum of `units` is given by structure: families share parameters, and any
            basis of them will do.
    """

    make: Callable[[], nn.Module]
    shape: object
    units: list[int]
    because: str
    named: tuple[str, ...] = ()
    alone: int = 0
    in_all: bool = False

    def example(self):
        """An input of two samples or more."""
        if self.shape == WORDS:
            return torch.randint(0, 7, (2, 3))
        if isinstance(self.shape, list):
            ids = [
                torch.randint(0, 7, (2, 3)) if s == WORDS else torch.randn(s) for s in self.shape
            ]
            return tuple(ids)
        return torch.randn(self.shape)


def bn(c):
    return nn.BatchNorm2d(c, eps=1e-30)


def conv(c_in, c_out, k=3, act=nn.ReLU, norm=bn, **options):
    """A convolution without bias, a norm, an activation."""
    weights = nn.Conv2d(c_in, c_out, k, padding=k // 2, bias=False, **options)
    return nn.Sequential(weights, norm(c_out), *([act()] if act else []))


def pooled(c, classes=3):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(c, classes))


class Added(nn.Module):
    """act(inner(x) + short(x))."""

    def __init__(self, inner, short=None, act=F.relu):
        super().__init__()
        self.inner, self.short, self.act = inner, short or nn.Identity(), act

    def forward(self, x):
        return self.act(self.inner(x) + self.short(x))


def mlp(*sizes, act=nn.ReLU, wrap=lambda layer: layer):
    layers = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        layers += [act()] if i else []
        layers.append(L(a, b) if i else wrap(L(a, b)))
    return nn.Sequential(*layers)


def lenet(act, pool):
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), act(), pool(2), nn.Conv2d(3, 4, 2), act(), pool(2)),
        *(nn.Flatten(), L(4, 6), act(), L(6, 5), act(), L(5, 3)),
    )


def vgg():
    return nn.Sequential(
        *(conv(1, 4), nn.MaxPool2d(2), conv(4, 5), nn.MaxPool2d(2)),
        *(nn.Flatten(), L(20, 6), nn.ReLU(), nn.Dropout(), L(6, 3)),
    )


def resnet(norm=bn):
    def block(c_in, c_out, short):
        inner = conv(c_in, c_out, norm=norm), conv(c_out, c_out, act=None, norm=norm)
        return Added(nn.Sequential(*inner), short)

    down = conv(4, 6, 1, act=None, norm=norm)
    return nn.Sequential(conv(1, 4, norm=norm), block(4, 4, None), block(4, 6, down), pooled(6))


def groups_of_two(c):
    return nn.GroupNorm(c // 2, c, eps=1e-30)


def preactivated():
    def part():
        return bn(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, bias=False)

    block = Added(nn.Sequential(*part(), *part()), act=nn.Identity())
    return nn.Sequential(nn.Conv2d(1, 4, 3), block, bn(4), nn.ReLU(), pooled(4))


def mobilenet1():
    return nn.Sequential(conv(1, 4), conv(4, 4, groups=4), conv(4, 6, 1), pooled(6))


def inverted(c_in, c_out, act, wide=8, middle=()):
    return nn.Sequential(
        *(conv(c_in, wide, 1, act), conv(wide, wide, 3, act, groups=wide), *middle),
        conv(wide, c_out, 1, None),
    )


def mobilenet2():
    relu6 = nn.ReLU6
    residual = Added(inverted(4, 4, relu6), act=nn.Identity())
    wider = inverted(4, 5, relu6)
    return nn.Sequential(conv(1, 4, 3, relu6), residual, wider, conv(5, 6, 1, relu6), pooled(6))


class Squeeze(nn.Module):
    """Channels weighed by what all places say."""

    def __init__(self, c, few, act):
        super().__init__()
        self.a, self.b, self.act = nn.Conv2d(c, few, 1), nn.Conv2d(few, c, 1), act

    def forward(self, x):
        return x * torch.sigmoid(self.b(self.act(self.a(x.mean((2, 3), keepdim=True)))))


def efficientnet():
    body = inverted(4, 5, nn.SiLU, middle=[Squeeze(8, 3, F.silu)])
    return nn.Sequential(conv(1, 4, 3, nn.SiLU), body, conv(5, 6, 1, nn.SiLU), pooled(6))


class ConvNext(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.stem, self.deep = nn.Conv2d(1, d, 2, 2), nn.Conv2d(d, d, 3, padding=1, groups=d)
        self.n0, self.n1, self.last = (nn.LayerNorm(d, eps=0.0) for _ in range(3))
        self.a, self.b, self.scale, self.head = L(d, 6), L(6, d), free(d), L(d, 3)

    def forward(self, x):
        x = self.n0(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = self.n1(self.deep(x).permute(0, 2, 3, 1))
        x = x + (self.scale * self.b(F.gelu(self.a(y)))).permute(0, 3, 1, 2)
        return self.head(self.last(x.mean((2, 3))))


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.n1, self.n2, self.last = bn(4), bn(7), bn(10)
        self.c1, self.c2 = (nn.Conv2d(c, 3, 3, padding=1, bias=False) for c in (4, 7))
        self.head = pooled(10)

    def forward(self, x):
        x = self.stem(x)
        x = torch.cat([x, self.c1(F.relu(self.n1(x)))], 1)
        x = torch.cat([x, self.c2(F.relu(self.n2(x)))], 1)
        return self.head(F.relu(self.last(x)))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 2, 2)
        self.c, self.out = nn.Conv2d(6, 5, 3, padding=1), nn.Conv2d(5, 1, 1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = self.up(F.relu(self.b(F.max_pool2d(a, 2))))
        return self.out(F.relu(self.c(torch.cat([a, b], 1))))


class Wavenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.again = nn.Conv1d(1, 4, 1), nn.Conv1d(3, 4, 1)
        self.f, self.g = (nn.ModuleList(nn.Conv1d(4, 3, 2) for _ in range(2)) for _ in "fg")
        self.skips = nn.ModuleList(nn.Conv1d(3, 5, 1) for _ in range(2))
        self.c1, self.c2 = nn.Conv1d(5, 6, 1), nn.Conv1d(6, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        h = torch.tanh(self.f[0](x)) * torch.sigmoid(self.g[0](x))
        x = x[..., 1:] + self.again(h)
        late = torch.tanh(self.f[1](x)) * torch.sigmoid(self.g[1](x))
        skip = self.skips[0](h)[..., 1:] + self.skips[1](late)
        return self.c2(F.relu(self.c1(F.relu(skip))))


def graph_layers(net, x):
    near = torch.eye(5) + torch.ones(5, 5).triu(1).tril(1)
    return near @ net.b(F.relu(near @ net.a(x)))


def tied_autoencoder():
    return Net(lambda n, x: F.linear(torch.relu(n.a(x)), n.a.weight.t()), a=L(6, 3))


def mixtral():
    model = Experts(False)
    model.experts = nn.ModuleList(attention.Gated(4, 5) for _ in range(3))
    return model


def torch_encoder():
    return nn.TransformerEncoderLayer(
        4, 2, 6, dropout=0.0, norm_first=True, batch_first=True, layer_norm_eps=0.0
    )


A = Architecture
MOST = "the stream, gain, query-key, value-out, gain, gated units, last gain"
ARCHITECTURES = {
    "MLP": A(lambda: mlp(6, 8, 7, 3), (4, 6), [8, 7], "ReLU units"),
    "MLP, GELU": A(lambda: mlp(6, 8, 3, act=nn.GELU), (4, 6), [], "GELU does not scale"),
    "MLP, BatchNorm": A(
        lambda: nn.Sequential(L(6, 8), nn.BatchNorm1d(8, eps=1e-30), nn.ReLU(), L(8, 3)),
        *((4, 6), [8, 8], "sizes of rows, gains"),
    ),
    "MLP, RMSNorm": A(
        lambda: nn.Sequential(L(6, 8), nn.RMSNorm(8, eps=0.0), nn.ReLU(), L(8, 3)),
        *((4, 6), [1, 8], "size of the layer, gains"),
    ),
    "LeNet": A(lambda: lenet(nn.ReLU, nn.MaxPool2d), IMAGE, [3, 4, 6, 5], "ReLU units"),
    "LeNet, tanh": A(lambda: lenet(nn.Tanh, nn.AvgPool2d), IMAGE, [], "tanh does not scale"),
    "VGG": A(vgg, IMAGE, [4, 4, 5, 5, 6], "conv scales and gains, a ReLU layer"),
    "ResNet": A(
        *(resnet, IMAGE, [4, 4, 4, 6, 6, 6, 4, 6, 4, 6]),
        "six conv scales, gains inside two blocks, two streams",
    ),
    "ResNet, GroupNorm": A(
        *(lambda: resnet(groups_of_two), IMAGE, [2, 2, 2, 3, 3, 3, 4, 6, 4, 6]),
        "the same, one conv scale for two channels",
    ),
    "ResNet, InstanceNorm": A(
        lambda: resnet(lambda c: nn.InstanceNorm2d(c, eps=1e-30, affine=True)),
        *(IMAGE, [4, 4, 4, 6, 6, 6, 4, 6, 4, 6], "as with BatchNorm"),
    ),
    "ResNet, pre-activation": A(
        preactivated, IMAGE, [4] * 5, "the stream, one more conv scale, three gains"
    ),
    "MobileNet": A(
        *(mobilenet1, IMAGE, [4, 4, 6, 4, 4, 6]),
        "conv scales, gains; a depthwise layer's norm sees the gain before it channel by channel",
        alone=1,
    ),
    "MobileNetV2": A(
        *(mobilenet2, IMAGE, [4, 8, 8, 4, 8, 8, 5, 6, 5]),
        "eight conv scales; ReLU6 leaves only the gain of a block without residual",
    ),
    "EfficientNet": A(
        *(efficientnet, IMAGE, [4, 8, 8, 5, 6, 5]),
        "five conv scales; SiLU leaves only the gain of the projection",
    ),
    "squeeze-excitation": A(
        lambda: nn.Sequential(conv(1, 4), Squeeze(4, 3, F.relu), pooled(4)),
        *(IMAGE, [4, 4, 3], "conv scale, gain, units of the squeeze"),
    ),
    "ConvNeXt": A(
        *(ConvNext, IMAGE, [1, 1, 1, 4, 4, 4]),
        "stem, stream, depthwise layer, gain, layer scale, last gain",
    ),
    "DenseNet": A(Dense, IMAGE, [4, 3, 3, 4, 7, 10], "conv scales, gains of all that is kept"),
    "U-Net": A(Unet, IMAGE, [3, 4, 3, 5], "ReLU units; the transposed layer is linear"),
    "autoencoder": A(
        lambda: nn.Sequential(mlp(6, 5, 2), mlp(2, 5, 6)), (4, 6), [5, 2, 5], "the code is linear"
    ),
    "autoencoder, tied": A(
        *(tied_autoencoder, (4, 6), [], "what goes in comes out of the same weight"),
        ("used in several places, not moved: a.weight",),
    ),
    "Swin": A(
        *(attention.Swin, IMAGE, [1, 1, 4, 4, 4, 4, 16, 1, 8]),
        "patches, stream, gain, query-key, value-out, gain, gain of the merge, stream, last gain",
    ),
    "ViT": A(
        *(attention.Vit, IMAGE, [1, 4, 4, 4, 4, 4]),
        "the stream, gain, query-key, value-out, gain, last gain",
    ),
    "MLP-Mixer": A(
        *(attention.Mixer, IMAGE, [1, 1, 4, 4]),
        "the stream, one gain for all channels of the mixed tokens, gain, last gain",
    ),
    "BERT": A(
        *(attention.Bert, WORDS, [1, 1, 4, 4, 1, 4]),
        "words, two streams between norms, query-key, value-out, last gain",
    ),
    "GPT-2": A(
        *(attention.gpt2, WORDS, [4] * 8, "gain, query-key, value-out, gain; the words are tied"),
        ("tied, not moved: words.weight, head.weight",),
    ),
    "Llama": A(attention.llama, WORDS, [1, 8, 4, 8, 8, 6, 8], MOST),
    "Mistral": A(attention.mistral, WORDS, [1, 8, 2, 4, 8, 6, 8], MOST + "; shared keys"),
    "Gemma": A(
        *(attention.gemma, WORDS, [4, 8, 6], "query-key, value-out, gated units; 1 + w is no gain"),
        ("tied, not moved: words.weight, head.weight",),
    ),
    "Qwen2": A(attention.qwen2, WORDS, [1, 8, 2, 4, 8, 6, 8], MOST + "; with biases"),
    "Qwen3": A(
        *(attention.qwen3, WORDS, [1, 8, 4, 2, 1, 4, 8, 6, 8]),
        MOST + "; queries and keys are normalised: sizes of 4 and 2 heads, one plane of gains",
    ),
    "T5": A(
        *(attention.T5, [WORDS, WORDS], [4, 4, 4, 4, 6, 4, 4, 4, 4, 4, 4, 4, 4, 6]),
        "all but the stream and the last gain, which the tied words hold",
        ("used in several places, not moved: words.weight",),
    ),
    "Mamba": A(
        *(attention.Mamba, WORDS, [1, 4, 6, 2, 3, 1, 4]),
        "stream, gain, convolution, rank of dt, B against C, C and D against the output, last gain",
        in_all=True,
    ),
    "torch's encoder layer": A(
        *(torch_encoder, (2, 3, 4), [4, 4, 4, 4, 6], "gain, query-key, value-out, gain, ReLU units")
    ),
    "LSTM": A(
        *(lambda: Recurrent(nn.LSTM), (3, 4, 3), [4], "what feeds it"),
        ("no rescaling: units of the lstm",),
    ),
    "GRU": A(
        *(lambda: Recurrent(nn.GRU), (3, 4, 3), [4], "what feeds it"),
        ("no rescaling: units of the gru",),
    ),
    "RNN, ReLU": A(
        lambda: Recurrent(nn.RNN, nonlinearity="relu"), (3, 4, 3), [4, 5], "what feeds it, units"
    ),
    "WaveNet": A(Wavenet, (2, 1, 6), [4, 5, 6], "the stream, the skips, ReLU units"),
    "LoRA": A(
        *(Adapted, (5, 4), [3], "the low rank"), ("frozen, not moved: base.weight, base.bias",)
    ),
    "mixture of experts": A(lambda: Experts(False), (8, 4), [5] * 3, "units of each expert"),
    "Mixtral's experts": A(mixtral, (8, 4), [5] * 3, "gated units of each expert"),
    "weight norm": A(
        *(lambda: mlp(6, 8, 7, 3, wrap=parametrizations.weight_norm), (4, 6), [7]),
        *("ReLU units after the computed weight", ("parametrised, not moved: 0.param",)),
    ),
    "spectral norm": A(
        *(lambda: mlp(6, 8, 7, 3, wrap=parametrizations.spectral_norm), (4, 6), [7]),
        *("ReLU units after the computed weight", ("parametrised, not moved: 0.param",)),
    ),
    "ReZero": A(lambda: ReZero(0.5), (8, 4), [6, 1], "ReLU units, the gain of the branch"),
    "CLIP": A(Clip, [(4, 4), (4, 5)], [6, 1, 1], "ReLU units, sizes of both embeddings"),
    "PointNet": A(
        lambda: Net(lambda n, x: n.b(F.relu(n.a(x)).amax(1)), a=mlp(3, 5, 6), b=mlp(6, 4, 2)),
        *((2, 5, 3), [5, 6, 4], "ReLU units, through the maximum"),
    ),
    "graph convolution": A(
        lambda: Net(graph_layers, a=L(3, 4), b=L(4, 2)), (2, 5, 3), [4], "ReLU units"
    ),
    "maxout": A(
        lambda: Net(
            lambda n, x: n.c(torch.maximum(n.a(x), n.b(x))), a=L(6, 4), b=L(6, 4), c=L(4, 2)
        ),
        *((4, 6), [4], "units, both pieces at once"),
    ),
}
