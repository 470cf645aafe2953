//! The macro that marks a moment at which a test can kill the process; see the module `crash`.

/// Passes a crash point: `crash_point!(Before, Moment::Intent)`. Nothing at all without the feature `crash-points`.
#[cfg(feature = "crash-points")]
macro_rules! crash_point {
    ($side:ident, $moment:ident) => {
        $crate::crash::pass($crate::crash::CrashPoint::$side($crate::crash::Moment::$moment))
    };
    ($side:ident, event $name:expr) => {
        $crate::crash::pass_event($crate::crash::CrashPoint::$side, $name)
    };
    ($side:ident, turn $turn:expr) => {
        $crate::crash::pass($crate::crash::CrashPoint::$side($crate::crash::Moment::of_turn($turn)))
    };
}

#[cfg(not(feature = "crash-points"))]
macro_rules! crash_point {
    ($($nothing:tt)*) => {};
}
