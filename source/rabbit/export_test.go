package rabbit

// What tests of the package's own name look at.
const MaxInFlight = maxInFlight

var ErrLate = errLate
