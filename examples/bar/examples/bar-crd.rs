//! Prints the CustomResourceDefinition of Bar for a program that runs in the namespace
//! `bar-system`, for `kubectl apply -f -`.

fn main() -> Result<(), serde_json::Error> {
    for definition in bar::manager().definitions_in("bar-system") {
        serde_json::to_writer_pretty(std::io::stdout(), &definition)?;
    }
    Ok(())
}
