"""Small models of attention and state spaces, in plain torch, after the published descriptions."""

import torch
import torch.nn.functional as F
from torch import nn

from torch_models.test_symmetries import free, heads, turned

L = nn.Linear


def bare(d_in, d_out):
    return L(d_in, d_out, bias=False)


def norm(d):
    return nn.LayerNorm(d, eps=0.0)


class Attention(nn.Module):
    """Heads of `size`; with fewer heads for keys and values, turned, or with normalised queries."""

    def __init__(self, d, count=2, kv=None, bias=True, rotary=False, normed=False, **options):
        super().__init__()
        self.count, self.kv, self.rotary = count, kv or count, rotary
        size = d // count
        self.q, self.k, self.v = (L(d, size * n, bias) for n in (count, self.kv, self.kv))
        self.o = L(d, d, bias)
        self.window, self.causal = options.get("window"), options.get("causal", False)
        self.bias = nn.Parameter(0.1 * torch.randn(count, 1, 1)) if "offset" in options else None
        if normed:
            self.qn, self.kn = nn.RMSNorm(size, eps=0.0), nn.RMSNorm(size, eps=0.0)
        self.normed = normed

    def forward(self, x, other=None):
        other = x if other is None else other
        q = heads(self.q(x), self.count)
        k, v = heads(self.k(other), self.kv), heads(self.v(other), self.kv)
        if self.normed:
            q, k = self.qn(q), self.kn(k)
        if self.rotary:
            q, k = turned(q), turned(k)
        share = self.count // self.kv
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if self.bias is not None:
            far = torch.arange(scores.shape[-2])[:, None] - torch.arange(scores.shape[-1])
            scores = scores + self.bias * far
        if self.causal:
            ones = torch.ones(scores.shape[-2:])
            hidden = ones.triu(1) + (ones.tril(-self.window) if self.window else 0)
            scores = scores.masked_fill(hidden > 0, -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class PreNorm(nn.Module):
    """x + attention(norm(x)), then x + inner(norm(x))."""

    def __init__(self, attention, inner, first, second):
        super().__init__()
        self.attention, self.inner, self.n1, self.n2 = attention, inner, first, second

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.inner(self.n2(x))


class Gated(nn.Module):
    def __init__(self, d, hidden, act=F.silu):
        super().__init__()
        self.gate, self.up, self.down = bare(d, hidden), bare(d, hidden), bare(hidden, d)
        self.act = act

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x))


def gelu_mlp(d, hidden):
    return nn.Sequential(L(d, hidden), nn.GELU(), L(hidden, d))


class OnePlus(nn.Module):
    """Gemma's norm: the gain is 1 + w."""

    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * (1 + self.weight)


class Language(nn.Module):
    """Words, blocks, a last norm, and a head that may be the words again."""

    def __init__(self, blocks, last, d, tied=False, scale=1.0, places=False):
        super().__init__()
        self.words, self.head = nn.Embedding(7, d), bare(d, 7)
        self.places = free(3, d) if places else None
        if tied:
            self.head.weight = self.words.weight
        self.blocks, self.last, self.scale = nn.Sequential(*blocks), last, scale

    def forward(self, ids):
        x = self.words(ids) * self.scale
        x = x if self.places is None else x + self.places
        return self.head(self.last(self.blocks(x)))


def decoder(d=8, tied=False, kind=None, act=F.silu, scale=1.0, **options):
    kind = kind or (lambda d: nn.RMSNorm(d, eps=0.0))
    attention = Attention(d, rotary=True, causal=True, **options)
    block = PreNorm(attention, Gated(d, 6, act), kind(d), kind(d))
    return Language([block], kind(d), d, tied, scale)


def llama():
    return decoder(bias=False)


def mistral():
    return decoder(bias=False, count=4, kv=2, window=2)


def gemma():
    def act(x):
        return F.gelu(x, approximate="tanh")

    return decoder(bias=False, tied=True, kind=OnePlus, act=act, scale=8**0.5)


def qwen2():
    return decoder(count=4, kv=2)


def qwen3():
    return decoder(bias=False, count=4, kv=2, normed=True)


class Turned(nn.Module):
    """GPT-2 keeps its weights with inputs first."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight, self.bias = free(d_in, d_out), free(d_out)

    def forward(self, x):
        out = torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)
        return out.view(*x.shape[:-1], -1)


class Packed(nn.Module):
    """Queries, keys and values from one weight."""

    def __init__(self, d):
        super().__init__()
        self.qkv, self.o = Turned(d, 3 * d), Turned(d, d)

    def forward(self, x):
        q, k, v = (heads(part, 2) for part in self.qkv(x).split(x.shape[-1], dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(x.shape))


def gpt2(d=4):
    def block():
        inner = nn.Sequential(Turned(d, 6), nn.GELU(), Turned(6, d))
        return PreNorm(Packed(d), inner, norm(d), norm(d))

    return Language([block(), block()], norm(d), d, tied=True, places=True)


class Bert(nn.Module):
    """Normalised after each addition; the first word goes through tanh to the classes."""

    def __init__(self, d=4):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(7, d), free(3, d), free(1, d)
        self.n0, self.n1, self.n2 = norm(d), norm(d), norm(d)
        self.attention, self.inner = Attention(d), gelu_mlp(d, 6)
        self.pooler, self.head = L(d, d), L(d, 2)

    def forward(self, ids):
        x = self.n0(self.words(ids) + self.places + self.kinds)
        x = self.n1(x + self.attention(x))
        x = self.n2(x + self.inner(x))
        return self.head(torch.tanh(self.pooler(x[:, 0])))


class T5(nn.Module):
    """An encoder and a decoder that share their words, which are the head as well."""

    def __init__(self, d=4):
        super().__init__()
        self.words = nn.Embedding(7, d)

        def inner():
            return nn.Sequential(bare(d, 6), nn.ReLU(), bare(6, d))

        def rms():
            return nn.RMSNorm(d, eps=0.0)

        def attention(**options):
            return Attention(d, bias=False, **options)

        self.encoder = PreNorm(attention(offset=True), inner(), rms(), rms())
        self.ne, self.n1, self.nc, self.n2, self.nf = (rms() for _ in range(5))
        self.own, self.cross = attention(offset=True, causal=True), attention()
        self.inner = inner()

    def forward(self, ids, targets):
        seen = self.ne(self.encoder(self.words(ids)))
        x = self.words(targets)
        x = x + self.own(self.n1(x))
        x = x + self.cross(self.nc(x), seen)
        x = x + self.inner(self.n2(x))
        return F.linear(self.nf(x), self.words.weight)


class Vit(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.patches = nn.Conv2d(1, d, 4, 4)
        self.first, self.places = free(1, 1, d), free(5, d)
        self.block = PreNorm(Attention(d), gelu_mlp(d, 6), norm(d), norm(d))
        self.last, self.head = norm(d), L(d, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.last(self.block(x))[:, 0])


class Windows(nn.Module):
    """Attention inside shifted windows of 2 × 2, with a learned offset for each distance."""

    def __init__(self, d, shift):
        super().__init__()
        self.qkv, self.o, self.shift = L(d, 3 * d), L(d, d), shift
        self.table = nn.Parameter(0.1 * torch.randn(9, 2))
        at = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        self.register_buffer("index", ((at[:, None] - at + 1) * torch.tensor([3, 1])).sum(-1))

    def forward(self, x):
        n, h, w, d = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(n, h // 2, 2, w // 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, d)
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        offset = self.table[self.index.view(-1)].view(4, 4, 2).permute(2, 0, 1)
        scores = (q @ k.transpose(-2, -1) / (d // 2) ** 0.5 + offset).softmax(-1)
        x = self.o((scores @ v).transpose(1, 2).reshape(-1, 4, d))
        x = x.view(n, h // 2, w // 2, 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, d)
        return torch.roll(x, (self.shift, self.shift), (1, 2))


class Swin(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.patches, self.n0 = nn.Conv2d(1, d, 2, 2), norm(d)
        self.block = PreNorm(Windows(d, 1), gelu_mlp(d, 6), norm(d), norm(d))
        self.nm, self.merge = norm(4 * d), bare(4 * d, 2 * d)
        self.last, self.head = norm(2 * d), L(2 * d, 3)

    def forward(self, x):
        x = self.block(self.n0(self.patches(x).permute(0, 2, 3, 1)))
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        x = self.merge(self.nm(torch.cat(parts, -1)))
        return self.head(self.last(x).mean((1, 2)))


class Mixer(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.patches = nn.Conv2d(1, d, 4, 4)
        self.n1, self.n2, self.last = norm(d), norm(d), norm(d)
        self.tokens, self.channels, self.head = gelu_mlp(4, 5), gelu_mlp(d, 6), L(d, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.n2(x))
        return self.head(self.last(x).mean(1))


class Selective(nn.Module):
    """Mamba's block: a gate, a causal convolution, a state whose steps depend on the input."""

    def __init__(self, d, inner=6, states=3, rank=2):
        super().__init__()
        self.sizes = (rank, states, states)
        self.into, self.out = bare(d, 2 * inner), bare(inner, d)
        self.conv = nn.Conv1d(inner, inner, 2, groups=inner, padding=1)
        self.x, self.dt = bare(inner, rank + 2 * states), L(rank, inner)
        self.log_rate, self.direct = free(inner, states), free(inner)

    def forward(self, x):
        x, z = self.into(x).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)
        dt, b, c = self.x(x).split(self.sizes, -1)
        dt = F.softplus(self.dt(dt))
        keep = torch.exp(-dt[..., None] * self.log_rate.exp())
        put = (dt * x)[..., None] * b[:, :, None]
        state, seen = torch.zeros_like(put[:, 0]), []
        for t in range(x.shape[1]):
            state = keep[:, t] * state + put[:, t]
            seen.append((state * c[:, t, None]).sum(-1))
        return self.out((torch.stack(seen, 1) + x * self.direct) * F.silu(z))


class Mamba(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.words, self.head = nn.Embedding(7, d), bare(d, 7)
        self.n1, self.last = nn.RMSNorm(d, eps=0.0), nn.RMSNorm(d, eps=0.0)
        self.block = Selective(d)

    def forward(self, ids):
        x = self.words(ids)
        return self.head(self.last(x + self.block(self.n1(x))))
