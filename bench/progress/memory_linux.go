package main

import "syscall"

// room is how much of the machine's memory has to be free for files: test programs that run at
// once take a quarter of it.
const room = 8 << 30

// noExec is the flag of a file system from which no program runs; tests build some.
const noExec = 0x8

// memory returns a folder in memory for the files of tests, "" where there is none with room:
// a broker takes a fifth less processor time where its disk has not to be waited for.
func memory() string {
	const folder = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil || fs.Flags&noExec != 0 || int64(fs.Bavail)*fs.Bsize < room { //nolint:gosec // it is far below
		return ""
	}
	return folder
}
