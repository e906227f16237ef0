// Package daemon holds what daemons that consume from RabbitMQ into a store share:
// the wait for the store at the start, the pauses of the consumers, and a stop within
// its time.
package daemon
