# Counts, formats, matches and sorts, so that many functions of the interpreter have a part.
my (%seen, @words);
for my $i (1 .. 400_000) {
    my $word = sprintf("%x-%d", $i * 2654435761 % 99991, $i % 613);
    $word =~ s/a(\d)/b$1/;
    $seen{$word} .= $i % 7 ? "x" : "yy";
    push @words, join(",", split(/-/, $word)) if $i % 5 == 0;
}
my @sorted = sort { $a cmp $b } keys %seen;
my $all = join(" ", @sorted, @words);
print length(uc $all), "\n";
