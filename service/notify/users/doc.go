// Package users has what the commands about one user of notifications share, in keyfold
// and in keyfold-lite.
package users
