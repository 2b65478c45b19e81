"""Why a limit cannot be computed, or does not move: codes and what they mean to a user."""

from collections.abc import Mapping
from types import MappingProxyType

from ..dynamics.protocol import AT_REST

(
    NO_MINIMUM,
    NOT_FITTED,
    TOO_SLOW,
    NOT_FINITE,
    UNCLEAR_RANK,
    LOST_RANK,
    STEP_TOO_LARGE,
    STEPS_TOO_SMALL,
    KINK,
    OUTWARDS,
) = range(AT_REST + 1, AT_REST + 11)

REASONS: Mapping[int, str] = MappingProxyType(
    {
        AT_REST: (
            "The point is at rest: the noise vanishes there, or cancels, up to rounding, as that "
            "of minibatches does where every sample is fitted."
        ),
        NO_MINIMUM: (
            "The loss has no minimum: there are parameters that have every sample right, and "
            "scaling up their last layer (or all of them) lowers the loss of every sample towards "
            "zero, which a loss that is positive everywhere never reaches. Cross-entropy and "
            "logistic loss on separable data are like this; label smoothing, soft labels or "
            "conflicting labels give them a minimum."
        ),
        OUTWARDS: (
            "Gradient flow from the start came near no minimum: it went outwards, to where the "
            "loss curves a thousand times less or the gradient vanishes. The infimum may be at "
            "infinity; that was not proved. A start nearer to a minimum, or a loss that grows "
            "with the outputs, would do."
        ),
        NOT_FITTED: (
            "Gradient flow from the start ends where the gradient vanishes and the data are not "
            "fitted: a saddle (an init of zeros), or a net that cannot fit the data (too narrow, "
            "or of one sign). Another init or a wider net would do; for a loss of gb.Samples "
            "whose minimum does not fit every sample, Limit(…, dense=True) takes the whole Hessian."
        ),
        TOO_SLOW: (
            "Gradient flow from the start has not come close to a minimum after 100 000 steps: its "
            "rates are many powers of ten apart, or the minimum is approached more and more slowly "
            "(a net that can fit the data only in a limit). Data that are better spread, or a "
            "start nearer to the minimum, would do."
        ),
        NOT_FINITE: (
            "Gradient flow from the start left the real numbers: the loss is not bounded below, "
            "or its gradient is not a number there."
        ),
        UNCLEAR_RANK: (
            "The number of normal directions is not clear where gradient flow ends: the Hessian "
            "has eigenvalues that are neither zero nor clearly above. Data that are nearly equal, "
            "or a manifold that is not smooth there, do this; rank= names the number."
        ),
        LOST_RANK: (
            "The manifold loses a normal direction on the way: an eigenvalue of the Hessian that "
            "is not zero at the start vanishes, and behind that point there is no limit."
        ),
        STEP_TOO_LARGE: (
            "A step ended where no point of the manifold is near: dt is too large for how the "
            "manifold bends. Use a smaller dt."
        ),
        STEPS_TOO_SMALL: (
            "The integrator's steps along the manifold became too small to get anywhere: the "
            "drift changes too fast, or is not a number. A larger rtol may do."
        ),
        KINK: (
            "The Hessian jumps there: the net has a kink, as those of relu and leaky units, and "
            "the limit is known for smooth nets only. Use a smooth activation (tanh, swish), or "
            "Descent with a small learning rate."
        ),
    }
)
