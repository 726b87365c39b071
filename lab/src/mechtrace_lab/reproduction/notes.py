"""The question behind each table."""

from __future__ import annotations

NOTES = {
    "methods": (
        "Do other methods recover the weights, or the latents, in the same worlds with the same"
        " budget of transitions? These are the cells of `mechtrace compare`: smaller than the"
        " paper's own training, and nobody is told which regimes take part, Algorithm 1 neither."
        " What a row's own method answers stands under *other methods*; `ar-hmm` is not in the"
        " paper."
    ),
    "noise": (
        "Does recovery get worse with the noise of the latent process as Theorem 2 says? The"
        " change that sets a regime apart is an edge of 0.5 throughout. Raw and calibrated errors"
        " of the weights are followed by the quantities of the theorem, measured on our latents;"
        " their scale is arbitrary, so only ratios such as the SNR compare with printed ones."
    ),
    "perturbation": (
        "The same with the noise held at 0.1 while the change that sets a regime apart grows:"
        " regimes that differ more should be easier to tell apart."
    ),
    "theorems": (
        "Do errors keep below the bound of Theorem 2, does the error of the smoother fall with the"
        " length T as Theorem 3 says, and does a monotone change stay monotone? True latents, so"
        " that only stage 2 is tried. *Rule*: the printed lambda = T^(1/3); *ordered pairs*: steps"
        " that differ by 0.1 in truth and come in the right order; *crossings*: of 0.25, 0.5 and"
        " 0.75."
    ),
    "trajectory": (
        "Three of five regimes take their turns, 0 -> 2 -> 4. Is the sequence recovered, with the"
        " intermediate peak at its place?"
    ),
    "calibration": (
        "In the paper raw weights keep the shape of a change from one regime to another, with a"
        " compressed scale. How exact are they once two points at which the truth is known set"
        " the scale?"
    ),
    "scaling": (
        "Ten regimes in eight latents, of which more and more are active, in three schedules from"
        " one after the other (`simple`) to oscillating (`complex`). Do the weights alpha survive,"
        " and does the mechanism W(t) that they mix?"
    ),
    "schedules": (
        "What the three schedules are like with five active regimes: how many have more than 0.05"
        " at once, the median of their peaks, and the share of regimes that only rise and then"
        " fall. The paper prints 2-3 and 0.7 for `medium`, and no monotone segments for"
        " `complex`."
    ),
    "window": (
        "Algorithm 1 smooths with a window that somebody must choose. How much hangs on it, with"
        " five regimes active in the `complex` schedule? The default has no window and the oracle"
        " neither: their figures are the same in each row. The paper does not say how many trials"
        " its curves rest on, and with 200 nothing is left to be smoothed away: the same for 10"
        " trials and for one recording (means over 20 groups)."
    ),
    "capacity": (
        "Does it harm to have learned ten regimes where five would do? The same numbers of active"
        " regimes, in a model of 5 and in one of 10."
    ),
    "samples": (
        "How many recordings of each regime are needed, for latents (MCC) and for weights with"
        " three and with five active regimes?"
    ),
    "beyond": (
        "Fifty regimes in few latents, more than the theory allows (K <= d + 1), of which five are"
        " active; changes touch all edges, or two."
    ),
    "ood": (
        "Would the gating network of stage 1 do alone? It is asked about pure recordings (ID) and"
        " about transitions that it never saw (OOD), where stage 2 answers as well. The paper does"
        " not say what its network sees. One that sees two steps knows little of pure recordings"
        " but follows a transition, as the mean of 200 trials shows; one that sees twenty knows"
        " pure recordings better and transitions worse, which is what the paper reports. It"
        " is judged on the steps at which it has an answer; what it says stands under *other"
        " methods*."
    ),
    "impurity": (
        "Regimes that contain a share of another mechanism, and recordings that carry a wrong"
        " label. The paper prints the first; the second is ours."
    ),
    "misspecified": (
        "More regimes in training than there are mechanisms (duplicates or averages of others),"
        " or fewer. Weights of regimes that coincide cannot be told apart; W(t), which they mix,"
        " can be right all the same."
    ),
    "simplex": (
        "What does it cost or gain to hold the weights on the simplex (none negative, sum 1)?"
    ),
    "cartpole": (
        "A cart with a pole is seen in pictures, which show its place and the angle of the pole"
        " but no speeds. MCC is that of these two, after and before the axes are aligned. Weights"
        " are those of the first three and of all five regimes; the paper does not say which three"
        " it has, and R2 to R4 change speeds, which no picture shows. The oracle sees the whole"
        " state. The paper's pictures have 128 x 128 pixels."
    ),
    "gait": (
        "Subjects of the CMU recordings are left out one after another; the share of running is"
        " compared with the speed of the hips, in trials that change their gait. `paper` are its"
        " 188 channels, that speed among them; `legs` are directions of the legs, without any"
        " speed. *Pure*: mean weight of the right gait in pure trials. As `told-line` shows, a"
        " straight line in time that is told its direction, a correlation says little here."
        " Settings are the defaults. The paper does not say which trial it displays, and its"
        " baseline is judged on that trial alone."
    ),
    "vehicles": (
        "Sequences of UAVDT are left out in folds; the share of vertical travel of turning"
        " vehicles is compared with the direction of their boxes. The paper prints one turn of 26"
        " frames, learned from images, and does not say which: its figures stand beside medians"
        " over turns that were verified by eye (*headings*: turns chosen by headings alone;"
        " *S1606*: a car that is annotated alone), from boxes. `motion` is place and velocity,"
        " `direction` the axis of travel and `folded` the sizes of cosine and sine of the heading,"
        " of both of which the truth is a function, `shape` the box without place or motion."
        " `centroid`, a moving average, is what the truth is made of. Settings are the defaults."
    ),
    "frames": (
        "The same from pixels: films in which a real vehicle is painted on a real road teach"
        " straight travel, and the turns of two real sequences are recovered from their frames."
        " *Camera steady*: after the motion of the camera is taken out. *Painted turns*: turns of"
        " other sequences, painted in the same way. The paper's figures are of one turn that it"
        " does not name."
    ),
    "assumption": (
        "Is a transition that is no mixture of learned regimes noticed? An edge that appears only"
        " between regimes should raise an alarm, a valid transition should not. *KS*: the paper's"
        " test of residuals around a mixture of means, of all steps and recordings together and"
        " of each recording; the paper reports p > 0.05 for valid data and p < 0.001 for the edge."
        " Residuals of neighbouring steps depend on each other and those of a transition lag"
        " behind its means, so that the test as printed also rejects valid transitions. Ours"
        " looks at one-step errors. In `linear-gaussian` all changes are dense."
    ),
}
