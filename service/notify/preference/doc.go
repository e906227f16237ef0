// Package preference reads users' own settings of notifications and changes them: for the
// HTTP API, the commands, and the page that users see.
package preference
