// Package breaker stands between a worker and a store that may be away.
//
// While it is closed, calls go through and their outcomes are counted. It opens
// after several failures in a row, or when calls are under way and none has
// succeeded for a while: a store that hangs fails nothing. From then on callers
// wait, one goroutine probes the store, and the first probe that succeeds closes
// it again.
//
// The usual breaker fails callers fast and lets one of them through as the
// probe. Here the callers hold events that must be neither failed nor tried in
// vain: they wait instead, and the probe is a write of its own. They wait no
// longer than HoldMax, since a broker takes events back that are held too long.
//
// The package imports nothing of keyfold.
package breaker
