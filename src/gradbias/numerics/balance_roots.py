"""Where sums of exponentials balance: one unknown, or many at once. All in logarithms.

Weights are given by their logarithms (−inf for none) because they may differ by hundreds of
decades; exponentials of differences are the only ones that are formed.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse

STEPS = 200  # far more than safeguarded Newton needs; bisection alone would need about 120
CLOSE = 1e-13  # the relative imbalance at which a joint balance is found
ROUNDS = 2000  # of sweeps and Newton steps before a joint balance is given up
SUSPECT = 40  # rounds, after which it is asked whether there is a balance at all
SHARES = (1.0, 0.5, 0.25, 0.125)  # of a Newton step that are tried before a sweep
FAR = 4e3  # an exponent beyond this is on its way to infinity
LARGEST = 3000  # unknowns, above which Newton's matrix is not formed
GRAIN = float(np.finfo(np.float64).eps)


class BalanceRoot(NamedTuple):
    """Where two sums balance, with what its derivatives are made of.

    A falling term of weight w moves x by exp(−rate·x − level)/slope for each unit of w, a rising
    one by −exp(rate·x − level)/slope.

    Attributes:
        x: the root; nan where both sums are empty, ±inf where one of them is.
        level: the logarithm of each of the two sums there; nan where x is not finite.
        slope: how fast the logarithm of their ratio falls there.
    """

    x: np.ndarray
    level: np.ndarray
    slope: np.ndarray


def balance_root(
    log_up: np.ndarray, rate_up: np.ndarray, log_down: np.ndarray, rate_down: np.ndarray
) -> BalanceRoot:
    """The x with Σ exp(log_up − rate_up·x) = Σ exp(log_down + rate_down·x).

    The difference F of the two logarithms falls with a slope between the sums of the largest and
    of the smallest rates, so that F(0) over these slopes brackets the root.

    Args:
        log_up: (…, p) logarithms of weights; −inf for a term that is not there.
        rate_up: (…, p) rates, positive wherever the weight is.
        log_down: (…, q).
        rate_down: (…, q).
    """
    some = [np.any(logs > -np.inf, axis=-1) for logs in (log_up, log_down)]
    x = np.where(some[0], np.inf, -np.inf)
    x[~some[0] & ~some[1]] = np.nan
    both = some[0] & some[1]
    terms = _Terms(log_up[both], rate_up[both], log_down[both], rate_down[both])
    x[both] = terms.solve()
    level = np.full(x.shape, np.nan)
    slope = np.full(x.shape, np.nan)
    sums, slope[both] = terms.at(x[both])
    level[both] = sums.mean(axis=0)  # equal up to rounding
    return BalanceRoot(x, level, slope)


def signed_root(mu: np.ndarray, log_a: np.ndarray, log_b: np.ndarray) -> BalanceRoot:
    """The x with Σ μ·a·exp(−2μx) = Σ μ·b·exp(2μx), for rows (…, m) of μ and of log a, log b."""
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(mu))
    plus = mu > 0
    rate = 2 * np.abs(mu)
    up = np.where(plus, log_a, log_b) + size
    down = np.where(plus, log_b, log_a) + size
    return balance_root(up, rate, down, rate)


class _Terms(NamedTuple):
    """Two sums of exponentials for each of many rows."""

    log_up: np.ndarray
    rate_up: np.ndarray
    log_down: np.ndarray
    rate_down: np.ndarray

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of the two sums, and how fast their difference F falls."""
        up, p = _shares(self.log_up - self.rate_up * x[:, None])
        down, q = _shares(self.log_down + self.rate_down * x[:, None])
        slope = (p * self.rate_up).sum(axis=1) + (q * self.rate_down).sum(axis=1)
        return np.stack([up, down]), slope

    def difference(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F and −F′."""
        sums, slope = self.at(x)
        return sums[0] - sums[1], slope

    def slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest −F′ that there can be."""
        least = np.zeros(len(self.log_up))
        most = np.zeros(len(self.log_up))
        for logs, rates in ((self.log_up, self.rate_up), (self.log_down, self.rate_down)):
            there = logs > -np.inf
            least += np.min(np.where(there, rates, np.inf), axis=1, initial=np.inf)
            most += np.max(np.where(there, rates, 0.0), axis=1, initial=0.0)
        return least, most

    def solve(self) -> np.ndarray:
        """Newton's method, kept in its bracket by bisection on a logarithmic scale."""
        f, slope = self.difference(np.zeros(len(self.log_up)))
        least, most = self.slopes()
        ends = np.sort(np.stack([f / most * (1 - 4 * GRAIN), f / least * (1 + 4 * GRAIN)]), axis=0)
        low, high = ends
        x = f / slope
        best = np.zeros_like(f)
        error = np.abs(f)
        for _ in range(STEPS):
            f, slope = self.difference(x)
            better = np.abs(f) < error
            slow = np.abs(f) > error / 2
            best = np.where(better, x, best)
            error = np.where(better, np.abs(f), error)
            low = np.where(f >= 0, x, low)
            high = np.where(f <= 0, x, high)
            newton = x + f / slope
            middle = np.sign(low + high) * np.sqrt(np.abs(low)) * np.sqrt(np.abs(high))
            outside = (newton < low) | (newton > high)
            done = np.abs(high - low) <= 2 * GRAIN * np.abs(best)
            moved = np.where(outside | (slow & ~done), middle, newton)
            if np.all((error == 0) | (moved == x) | done):
                break
            x = moved
        return best


def _shares(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of the sum of each row's exponentials, and the terms' shares in it."""
    top = logs.max(axis=1, keepdims=True, initial=-np.inf)
    terms = np.exp(logs - top)
    total = terms.sum(axis=1, keepdims=True)
    return (top + np.log(total))[:, 0], terms / total


def _grouped_shares(logs: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_shares` of groups that follow one another, given where each of them starts."""
    if not len(logs):
        return logs, logs
    groups = np.arange(len(starts))
    group = np.repeat(groups, np.diff(starts, append=len(logs)))
    top = np.maximum.reduceat(logs, starts)
    terms = np.exp(logs - top[group])
    # A zero before each group: its sum then has the bits of a sum over a row.
    padded = np.zeros(len(terms) + len(groups))
    padded[np.arange(len(terms)) + group + 1] = terms
    total = np.add.reduceat(padded, starts + groups)
    return top + np.log(total), terms / total[group]


class Balance(NamedTuple):
    """Where many balances hold at once.

    Attributes:
        x: (g,) the point; 0 where `alive` is not.
        alive: (g,) unknowns with terms on both sides; the others have no balance.
        imbalance: (g,) the logarithm of the ratio of the two sides there; 0 where not alive.
        reached: is every imbalance at rounding?
    """

    x: np.ndarray
    alive: np.ndarray
    imbalance: np.ndarray
    reached: bool


def joint_balance(rates: Any, logs: np.ndarray) -> Balance:
    """The least Σ_i exp(logs_i + (Kx)_i) over x, a convex problem: every unknown balanced.

    For each unknown the terms that grow with it and those that fall balance. Sweeps of
    `balance_root` over the unknowns come first; then Newton's method on the logarithms of the
    ratios, which are nearly linear, with a sweep wherever it does not help.

    Args:
        rates: K (terms, unknowns), sparse or dense.
        logs: (terms,), −inf for a term that is not there.
    """
    there = logs > -np.inf
    system = _System(scipy.sparse.csc_array(rates)[there], logs[there])
    alive = system.two_sided()
    x = system.solve(alive)
    imbalance = np.where(alive, system.imbalance(x), 0.0)
    return Balance(x, alive, imbalance, bool(np.all(np.abs(imbalance) <= 1e3 * CLOSE)))


def orbit_balance(mu: scipy.sparse.csc_array, noise: np.ndarray, decay: np.ndarray) -> Balance:
    """The least Σ exp(noise − 2μx) + Σ exp(decay + 2μx): `joint_balance` of diagonal generators.

    Args:
        mu: (terms, unknowns), the diagonals of the generators, by column.
        noise: (terms,) logarithms of κσ², −inf for none.
        decay: (terms,) logarithms of 4γθ².
    """
    K = 2 * mu
    rates = scipy.sparse.csc_array(scipy.sparse.vstack([-K, K]))
    rates.eliminate_zeros()
    return joint_balance(rates, np.concatenate([noise, decay]))


class _System(NamedTuple):
    K: Any  # csc_array, whose stubs are wrong about its fields
    logs: np.ndarray

    def column(self, j: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(self.K.indptr[j], self.K.indptr[j + 1])
        return self.K.indices[part], self.K.data[part]

    def two_sided(self) -> np.ndarray:
        values = [self.column(j)[1] for j in range(self.K.shape[1])]
        return np.array([np.any(v > 0) and np.any(v < 0) for v in values], dtype=bool)

    def solve(self, alive: np.ndarray) -> np.ndarray:
        """The point of balance, or where the way to it was lost."""
        x = np.zeros(len(alive))
        error = self._error(x, alive)
        for round_ in range(ROUNDS):
            if error <= CLOSE or (round_ == SUSPECT and self.runs_away(alive)):
                break
            new = self._better(x, alive, error)
            new_error = self._error(new, alive)
            at_rounding = error <= 1e3 * CLOSE and new_error >= error
            if at_rounding or np.any(np.abs(self.K @ new) > FAR):
                break
            x = new
            error = new_error
        return x

    def runs_away(self, alive: np.ndarray) -> bool:
        """Is there a direction in which no term grows and some fall? Then nothing is the least."""
        K = self.K[:, np.flatnonzero(alive)]
        falls = scipy.optimize.linprog(
            K.sum(axis=0),
            A_ub=scipy.sparse.vstack([K, -K]),
            b_ub=np.concatenate([np.zeros(K.shape[0]), np.ones(K.shape[0])]),
            bounds=(None, None),
            method="highs",
        )
        return bool(falls.success and falls.fun < -1e-6)

    def _better(self, x: np.ndarray, alive: np.ndarray, error: float) -> np.ndarray:
        target = self._newton(x, alive) if error < 3.0 else None
        if target is not None:
            for share in SHARES:
                new = target if share == 1 else x + share * (target - x)
                if self._error(new, alive) < (1 - 0.3 * share) * error:
                    return new
        # A sweep always lowers the sum, though not the worst of the ratios.
        return self.sweep(x, alive)

    def sweep(self, x: np.ndarray, alive: np.ndarray) -> np.ndarray:
        """Balance one unknown after the other."""
        exponents = self.logs + self.K @ x
        x = x.copy()
        for j in np.flatnonzero(alive).tolist():
            rows, rates = self.column(j)
            up = rates < 0
            down = rates > 0
            own = exponents[rows] + np.log(np.abs(rates))
            terms = own[up], -rates[up], own[down], rates[down]
            move = balance_root(*(term[None, :] for term in terms)).x[0]
            exponents[rows] += rates * move
            x[j] += move
        return x

    def imbalance(self, x: np.ndarray) -> np.ndarray:
        """log(falling terms) − log(rising terms), for each unknown."""
        return self._sides(x)[0]

    def _sides(self, x: np.ndarray) -> tuple[np.ndarray, scipy.sparse.csc_array]:
        """The imbalances, and the share of every term in its side with the sign of its rate."""
        exponents = (self.logs + self.K @ x)[self.K.indices] + np.log(np.abs(self.K.data))
        columns = np.repeat(np.arange(self.K.shape[1]), np.diff(self.K.indptr))
        shares = np.zeros_like(self.K.data)
        logs = np.zeros((2, self.K.shape[1]))
        for side, sign in enumerate((-1, 1)):
            chosen = np.flatnonzero(np.sign(self.K.data) == sign)
            column = columns[chosen]
            starts = np.flatnonzero(np.diff(column, prepend=-1))
            logs[side, column[starts]], share = _grouped_shares(exponents[chosen], starts)
            shares[chosen] = sign * share
        matrix = scipy.sparse.csc_array((shares, self.K.indices, self.K.indptr), self.K.shape)
        return logs[0] - logs[1], matrix

    def _error(self, x: np.ndarray, alive: np.ndarray) -> float:
        return float(np.abs(self.imbalance(x)[alive]).max(initial=0.0))

    def _newton(self, x: np.ndarray, alive: np.ndarray) -> np.ndarray | None:
        live = np.flatnonzero(alive)
        if not 0 < len(live) <= LARGEST:
            return None
        value, shares = self._sides(x)
        J = (shares[:, live].T @ self.K[:, live]).toarray()  # −∂(imbalance)/∂x
        new = x.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            try:
                new[live] += scipy.linalg.solve(J, value[live])
            except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
                # Redundant unknowns: the smallest of all solutions.
                new[live] += np.linalg.lstsq(J, value[live], rcond=1e-12)[0]
        return new if np.all(np.isfinite(new)) and np.abs(self.K @ new).max() < FAR else None
