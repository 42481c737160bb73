//! Tables for the checks of the demo.
