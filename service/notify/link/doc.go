// Package link makes the addresses under which a user sees and changes preferences without
// signing in, and reads them again. What an address may be used for stands in its token, which
// is signed and expires.
package link
