package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/headwater/headwater/integration/record"
)

// shellWords returns the words as they are typed in a shell.
func shellWords(words []string) string {
	var typed []string
	for _, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"$|&;<>()*?[]{}~#!`\\") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		typed = append(typed, word)
	}
	return strings.Join(typed, " ")
}

// saveOutput runs a program and saves what it prints as a record. A program that
// fails is not saved.
func saveOutput(path, command string, bench bool, program []string) error {
	if len(program) == 0 {
		return errors.New("-save: name a program after --")
	}
	if command == "" {
		command = shellWords(program)
	}
	recorder, err := record.Start(command)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if bench {
		cmd.Stdout = io.MultiWriter(&out, os.Stdout)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(program, " "), err)
	}
	if bench {
		found := parseBenchmarks(out.String())
		if len(found) == 0 {
			return fmt.Errorf("%s: printed no benchmark", strings.Join(program, " "))
		}
		return recorder.Save(path, found)
	}
	if !json.Valid(out.Bytes()) {
		return fmt.Errorf("%s: printed no JSON", strings.Join(program, " "))
	}
	return recorder.Save(path, json.RawMessage(out.Bytes()))
}
