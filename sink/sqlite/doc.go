// Package sqlite keeps profiles and products in one SQLite file: the embedded
// store, with nothing to install and a true compare-and-swap. Package sqlfile
// opens the file and has its one writer.
package sqlite
