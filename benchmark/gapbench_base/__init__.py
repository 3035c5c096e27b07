"""What all four packages need and none of them owns: errors, seeds, keys, atomic files, plug-ins."""
