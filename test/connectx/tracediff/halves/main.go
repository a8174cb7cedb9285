// SPDX-License-Identifier: Apache-2.0

// Halves compares the two halves of a trace of a software ConnectX: programs, and then
// their counterparts. It fails if they gave the device different requests.
//
//	go run ./test/connectx/tracediff/halves FILE
package main

import (
	"fmt"
	"os"

	"purerdma/test/connectx/tracediff"
)

func main() {
	if err := compare(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "halves:", err)
		os.Exit(1)
	}
}

func compare(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one trace, please")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := tracediff.Requests(f, "RC", "UC", "UD")
	if err != nil {
		return err
	}
	first, second, err := tracediff.Halves(all)
	if err != nil {
		return err
	}
	if d := tracediff.Differences(first, second); d != "" {
		return fmt.Errorf("the halves differ:\n%s", d)
	}
	fmt.Printf("both halves gave the devices the same %d requests\n", len(first))
	return nil
}
