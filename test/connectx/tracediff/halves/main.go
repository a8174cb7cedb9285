// SPDX-License-Identifier: Apache-2.0

// Halves compares the two halves of a trace of a software ConnectX, such as programs and then
// their counterparts. It fails if their operations differ:
//
//	go run ./test/connectx/tracediff/halves [-kinds request,doorbell] FILE
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"purerdma/test/connectx/tracediff"
)

func main() {
	kinds := flag.String("kinds", strings.Join(tracediff.Kinds, ","), "what is compared: any of these")
	flag.Parse()
	if err := compare(flag.Args(), strings.Split(*kinds, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "halves:", err)
		os.Exit(1)
	}
}

func compare(args, kinds []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one trace")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := tracediff.Seen(f, "RC", "UC", "UD")
	if err != nil {
		return err
	}
	first, second, err := tracediff.Halves(tracediff.Select(all, kinds...))
	if err != nil {
		return err
	}
	if d := tracediff.Differences(first, second); d != "" {
		return fmt.Errorf("the halves differ:\n%s", d)
	}
	fmt.Printf("both halves are equal in %d lines:", len(first))
	for _, kind := range kinds {
		fmt.Printf(" %d %s", len(tracediff.Select(first, kind)), kind)
	}
	fmt.Println()
	return nil
}
