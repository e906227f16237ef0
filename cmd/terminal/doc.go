// Package terminal is what keyfold's commands share towards a person: files to
// read, progress to watch, figures to print.
package terminal
